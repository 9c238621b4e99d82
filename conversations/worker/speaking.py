"""From what a handler, a client or the machine wants to say to records of the next transaction."""

from __future__ import annotations

from conversations.dialog import Draft, Verb
from conversations.protocol import rows
from conversations.protocol.codes import Code
from conversations.protocol.command import Begin, Command, End, EndWithError, Operation, Send, SetTimer, encode_command
from conversations.protocol.effects import Transmit
from conversations.protocol.endpoint import NEVER, prefix_of
from conversations.protocol.envelope import (
    HEADER_NAME,
    Envelope,
    Kind,
    decode,
    encode,
    encode_ack,
    encode_end,
    encode_message,
    header_of,
    tail_start,
)
from conversations.protocol.envelope_run import read_run
from conversations.protocol.limits import OPERATIONS
from conversations.protocol.sequencing import NONE
from conversations.protocol.states import State
from conversations.protocol.topics import partition_of
from conversations.worker import groups, parking
from conversations.worker.active import Active
from conversations.worker.partition import Partition


def apply(partition: Partition, draft: Draft) -> None:
    """Carry out what a handler asked for, in order. The draft checked it, so nothing here is refused."""
    unrelated: dict[bytes, list[Operation]] = {}
    for ask in draft.asks:
        active = ask.party
        if not isinstance(active, Active):
            raise TypeError("a draft holds endpoints of its own partition")
        if ask.verb is Verb.SEND:
            if unrelated and active.identity in unrelated:
                unrelated[active.identity].append(_send_operation(ask.first, ask.second))
            else:
                send(partition, active, ask.first, ask.second)
        elif ask.verb is Verb.BEGIN and not ask.first:
            unrelated[active.identity] = [_begin_operation(active)]
        elif active.identity in unrelated:
            unrelated[active.identity].append(_operation(ask.verb, ask.first, ask.second, partition.owner.now))
        else:
            _carry_out(partition, active, ask.verb, ask.first, ask.second)
    for own, operations in unrelated.items():
        _command(partition, own, next(a.party for a in draft.asks if a.party.identity == own), operations)  # type: ignore[arg-type]  # checked above


def _carry_out(partition: Partition, active: Active, verb: Verb, first: object, second: object) -> None:
    if verb is Verb.BEGIN:
        groups.join(partition, active)
        partition.actives[rows.other_side(active.identity)] = active
        partition.owner.counts.begun += 1
        partition.touch(active)
    elif verb is Verb.END:
        end(partition, active)
    elif verb is Verb.END_WITH_ERROR:
        end_with_error(partition, active, int(str(first)), str(second))
    elif verb is Verb.CLEANUP:
        active.endpoint.cleanup()
        settled(partition, active, told=False)
    elif isinstance(first, int) and active.endpoint.state is not State.CLOSED:
        active.endpoint.set_timer(first)
        partition.parking.forget_retry(active, rows.TIMER, parking.ENDED)
        partition.touch(active)


# -- operations on one endpoint --------------------------------------------------------------------------------


def send(partition: Partition, active: Active, run: bytes, body: bytes) -> None:
    """Number and transmit one message."""
    endpoint = active.endpoint
    number = endpoint.send()
    if number == 0 and endpoint.initiator:
        _first_transmission(partition, active)
    prefix = active.out or active.out_prefix()
    value = encode_message(prefix, number, endpoint.acknowledge(), partition.owner.stamp, run, body)
    transmit(partition, active, value)
    if not active.dirty:
        partition.touch(active)


def end(partition: Partition, active: Active) -> None:
    """End this side of the dialog."""
    said = active.endpoint.end()
    if said is not None:
        _say(partition, active, said)
    settled(partition, active)


def end_with_error(partition: Partition, active: Active, code: int, description: str) -> None:
    """End this side with an error of the application; envelopes not transmitted yet are dropped."""
    endpoint = active.endpoint
    if active.identity in partition.waiting.delayed.of:
        _drop_delayed(partition, active)
    said = endpoint.end_with_error(code, description)
    if said is not None:
        _say(partition, active, said)
    settled(partition, active)


def fail(partition: Partition, active: Active, code: Code, description: str = "") -> None:
    """Break the dialog for a reason of the broker's own and tell the peer."""
    said = active.endpoint.fail(code, description)
    if said is not None:
        _say(partition, active, said)
    settled(partition, active)


def acknowledge(partition: Partition, active: Active) -> None:
    """Transmit a dedicated ACK."""
    value = encode_ack(active.out_prefix(), active.endpoint.acknowledge(), partition.owner.stamp)
    transmit(partition, active, value)


def tell_skipped(partition: Partition, active: Active, number: int) -> None:
    """Tell the peer that its message was given up on and the dialog goes on without it."""
    said = Envelope(
        prefix_of(active.endpoint), Kind.ACK, NONE, active.endpoint.acknowledge(), NONE, (number,),
        sent_at=partition.owner.now,
    )  # fmt: skip
    transmit(partition, active, encode(said))
    partition.touch(active)


def ask_resend(partition: Partition, active: Active) -> None:
    """Ask the peer for what is missing."""
    _say(partition, active, Transmit(Kind.RESEND))


def _say(partition: Partition, active: Active, said: Transmit) -> None:
    endpoint = active.endpoint
    now = partition.owner.now
    if said.kind is Kind.END:
        value = encode_end(active.out_prefix(), said.seq, endpoint.acknowledge(), partition.owner.stamp)
    else:
        ack = endpoint.inbound.accepted if said.kind is Kind.RESEND else endpoint.acknowledge()
        transmitted = endpoint.next_out - 1 if said.kind is Kind.ERROR else NONE
        value = encode(
            Envelope(
                prefix_of(endpoint),
                said.kind,
                said.seq,
                ack,
                transmitted,
                sent_at=now,
                code=said.code,
                description=said.description,
            )
        )
    transmit(partition, active, value)
    partition.touch(active)


def settled(partition: Partition, active: Active, *, told: bool = True) -> None:
    """After a dialog has ended or broken: keep the bytes of what was parked, and remember the endpoint."""
    partition.parking.close(active)
    remember(partition, active, told=told)


def remember(partition: Partition, active: Active, *, told: bool = True) -> None:
    """Remember a closed endpoint by a tombstone, and tell a request that waits for it."""
    endpoint = active.endpoint
    partition.touch(active)
    if endpoint.state is State.CLOSED and active.tombstone is None:
        owner = partition.owner
        forget_at = max(endpoint.started_until, partition.progress.row.queue_time, owner.now) + owner.periods.grace
        tombstone = rows.Tombstone(
            endpoint.key, endpoint.origin, forget_at, endpoint.inbound.accepted, endpoint.next_out - 1,
            endpoint.discarded, endpoint.dead_lettered, told=told, code=endpoint.error.code if endpoint.error else 0,
            missing=endpoint.inbound.missing,
        )  # fmt: skip
        active.entomb(tombstone)
        partition.schedule.tombstones.add(forget_at, rows.ENDPOINT + active.identity)
        partition.schedule.deadlines.forget_one()
        partition.owner.counts.closed += 1
    watcher = partition.owner.watchers.get(endpoint.conversation) if endpoint.initiator else None
    if watcher is not None and endpoint.state not in (State.STARTED_OUTBOUND, State.CONVERSING):
        over, error = watcher.over, endpoint.error
        partition.outbox.notify(lambda: over(error))


# -- onto the wire ---------------------------------------------------------------------------------------------


def _first_transmission(partition: Partition, active: Active) -> None:
    endpoint = active.endpoint
    now = partition.owner.now
    endpoint.started_until = now + min(partition.owner.periods.start_within, endpoint.expires_at - now)
    active.forget_encoded()


def transmit(partition: Partition, active: Active, value: bytes) -> None:
    """Append an encoded envelope to the peer's queue, or keep it as a row while that cannot take it."""
    if active.out_partition < 0 and not _route(partition, active):
        _delay(partition, active, value)
        return
    if partition.owner.destinations.blocked or partition.waiting.delayed.of:
        blocked = active.out_topic in partition.owner.destinations.blocked
        if blocked or active.identity in partition.waiting.delayed.of:
            _delay(partition, active, value)
            return
    header = header_of(value, len(active.out or active.out_prefix()))
    partition.outbox.produce((active.out_topic, active.out_partition, active.out_key, value, [(HEADER_NAME, header)]))


def _route(partition: Partition, active: Active) -> bool:
    destinations = partition.owner.destinations
    endpoint = active.endpoint
    active.route(destinations.topic(endpoint.peer))
    if active.out_topic in destinations.blocked:
        return False
    count = destinations.partitions(endpoint.peer)
    if count is None:
        destinations.block(active.out_topic, partition.owner.now)
        return False
    active.route(active.out_topic, partition_of(endpoint.peer_key.encode(), count))
    return True


def produce_envelope(partition: Partition, service: str, count: int, key: bytes, value: bytes) -> None:
    """Append an envelope for a conversation that has no endpoint here; nothing waits for its delivery."""
    topic = partition.owner.destinations.topic(service)
    headers = [(HEADER_NAME, header_of(value, tail_start(value)))]
    partition.outbox.produce((topic, partition_of(key, count), key, value, headers))


def _delay(partition: Partition, active: Active, value: bytes) -> None:
    delay_row(partition, active.identity, active.out_topic, active.out_key, value)


def delay_row(partition: Partition, own: bytes, topic: str, key: bytes, value: bytes) -> None:
    """Keep an envelope as a row until its destination takes records again."""
    row = rows.encode_waiting(
        rows.WaitingRow(topic, NONE, 0, accepted=False, attempts=0, key=key, header=b"", value=value)
    )
    partition.waiting.delay(own, topic, row)


def release_delayed(partition: Partition) -> None:
    """Transmit what was kept for destinations that may be tried again; only these are looked at."""
    delayed, blocked = partition.waiting.delayed, partition.owner.destinations.blocked
    for topic in [topic for topic in delayed.to if topic not in blocked]:
        waiting = delayed.to.pop(topic)
        while waiting and topic not in blocked and not partition.owner.budget.is_read():
            own = next(iter(waiting))
            del waiting[own]
            if own in delayed.of and own not in partition.refused:  # else its turn comes in its lane
                _release_dialog(partition, own)
        for own in waiting:
            delayed.wait(own, topic)


def _release_dialog(partition: Partition, own: bytes) -> None:
    active = partition.find(rows.other_side(own), "", "")
    if not active.exists:
        _release_answers(partition, own)
        return
    peer = active.endpoint.peer
    active.route(partition.owner.destinations.topic(peer), active.out_partition)
    count = _taken_up(partition, own, active.out_topic, peer)
    if count is not None:
        _release(partition, active, partition_of(active.out_key, count))


def _taken_up(partition: Partition, own: bytes, topic: str, service: str) -> int | None:
    """Return the partition count of a destination that may be tried, None when what is kept for it has to wait on."""
    destinations = partition.owner.destinations
    if topic not in destinations.blocked:
        if (count := destinations.partitions(service)) is not None:
            return count
        destinations.block(topic, partition.owner.now)
    partition.waiting.delayed.wait(own, topic)
    return None


def _release(partition: Partition, active: Active, destination: int) -> None:
    active.route(active.out_topic, destination)
    if active.endpoint.initiator and active.endpoint.acked == NONE:
        _first_transmission(partition, active)
        partition.touch(active)
    prefix = prefix_of(active.endpoint)
    start = len(active.out_prefix())
    for key, row in list(partition.outbox.scan(rows.DELAYED + active.identity)):
        kept = partition.outbox.decoded(key, rows.decode_waiting, row)
        envelope = decode(kept.value)
        envelope.prefix = prefix
        value = encode(envelope)
        partition.outbox.produce(
            (active.out_topic, destination, kept.key, value, [(HEADER_NAME, header_of(value, start))])
        )
        partition.outbox.write(key, None)
    partition.waiting.delayed.forget(active.identity)


def _release_answers(partition: Partition, own: bytes) -> None:
    """Transmit what was kept for a conversation that has no endpoint here (any more)."""
    for key, row in list(partition.outbox.scan(rows.DELAYED + own)):
        kept = partition.outbox.decoded(key, rows.decode_waiting, row)
        service = decode(kept.value).prefix.to_service
        count = _taken_up(partition, own, kept.topic, service)
        if count is None:
            return
        produce_envelope(partition, service, count, kept.key, kept.value)
        partition.outbox.write(key, None)
    partition.waiting.delayed.forget(own)


def forget_delayed(partition: Partition, own: bytes) -> int:
    """Drop what could not be transmitted until nobody remembers the dialog; return how much that was."""
    found = [key for key, _ in partition.outbox.scan(rows.DELAYED + own)] if own in partition.waiting.delayed.of else []
    for key in found:
        partition.outbox.write(key, None)
    partition.waiting.delayed.forget(own)
    return len(found)


def _drop_delayed(partition: Partition, active: Active) -> None:
    for key, _ in list(partition.outbox.scan(rows.DELAYED + active.identity)):
        partition.outbox.write(key, None)
        active.endpoint.discarded += 1
    partition.waiting.delayed.forget(active.identity)


# -- dialogs of other partitions -----------------------------------------------------------------------------------


def _begin_operation(active: Active) -> Begin:
    endpoint = active.endpoint
    lifetime = -1 if endpoint.expires_at >= NEVER else endpoint.expires_at
    return Begin(endpoint.peer, endpoint.contract, lifetime, "")


def _send_operation(run: bytes, body: bytes) -> Send:
    _, _, message_type, _, _, _, _, content_type = read_run(run, 0)
    return Send(message_type, content_type, body)


def _operation(verb: Verb, first: object, second: object, now: int) -> Operation:
    if verb is Verb.END:
        return End()
    if verb is Verb.END_WITH_ERROR:
        return EndWithError(int(str(first)), str(second))
    at = int(str(first))
    return SetTimer(-1 if at >= NEVER else at - now)


def _command(partition: Partition, own: bytes, active: Active, operations: list[Operation]) -> None:
    owner = partition.owner
    endpoint = active.endpoint
    begin = operations[0]
    if isinstance(begin, Begin) and begin.lifetime > 0:
        begin.lifetime -= owner.now
    count = owner.destinations.partitions(owner.name)
    if count is None:
        raise LookupError(f"the catalog has no entry for {owner.name}, whose topics exist")
    key = endpoint.key.encode()
    for at in range(
        0, len(operations), OPERATIONS
    ):  # one after the other in one transaction: no less together than in one
        command = Command(
            owner.new_conversation(), own[:16], True, endpoint.key, "", owner.name, owner.now,
            tuple(operations[at : at + OPERATIONS]),
        )  # fmt: skip
        partition.outbox.produce((owner.topics.commands, partition_of(key, count), key, encode_command(command), None))
