"""Outbound: the requests of a handler, of a client or of the worker itself become records of the next transaction."""

from __future__ import annotations

from dataclasses import replace

from conversations.draft import Draft
from conversations.protocol import letters, rows
from conversations.protocol.codes import NOT_CONVERSING, SystemCode
from conversations.protocol.command import (
    Begin,
    Cleanup,
    Command,
    End,
    EndWithError,
    Operation,
    Resend,
    SetTimer,
    Verb,
    aged,
    encode_command,
)
from conversations.protocol.contract import END_OF_STREAM
from conversations.protocol.effects import Failure, Reaction, Transmit
from conversations.protocol.endpoint import NEVER, prefix_of
from conversations.protocol.envelope import (
    Envelope,
    Kind,
    encode,
    encode_ack,
    encode_end,
    encode_message,
    message_run,
)
from conversations.protocol.fragments import cut
from conversations.protocol.limits import OPERATIONS
from conversations.protocol.send import Send, SendFromPieces
from conversations.protocol.sequencing import NONE
from conversations.protocol.states import State
from conversations.protocol.times import later
from conversations.protocol.topics import partition_of
from conversations.tracing import headers_of
from conversations.worker import assembly, parking, referring, returns
from conversations.worker.active import Active, Arrival
from conversations.worker.partition import Partition
from conversations.worker.records import arrival_of

_GOES_ON = frozenset({State.STARTED_OUTBOUND, State.CONVERSING, State.FENCING, State.FENCING_OUTBOUND})
"""States in which a client that waits for a message may still get it."""


def apply(partition: Partition, draft: Draft) -> None:
    """Carry out a handler's requests in order. The draft has checked the requests, so no request is refused here."""
    apart: dict[bytes, tuple[Active, list[Operation]]] = {}
    for party, verb, at in draft.asks:
        if not isinstance(party, Active):
            raise TypeError("a draft may have only endpoints of its own partition")
        if draft.apart is not None and party.identity in draft.apart:
            apart.setdefault(party.identity, (party, []))[1].append(aged(verb, partition.context.now - at))
        elif isinstance(verb, Send):
            send_message(partition, party, verb)
        else:
            _carry_out(partition, party, verb, at)
    for active, operations in apart.values():
        _command(partition, active, operations)


def _carry_out(partition: Partition, active: Active, verb: Verb, at: int) -> None:
    match verb:
        case Begin():
            partition.groups.join(active)
            partition.actives[rows.other_side(active.identity)] = active
            partition.context.counts.count_begun()
            partition.touch(active)
            if (watcher := partition.context.watchers.find(active.identity[:16])) is not None:
                partition.outbox.notify(watcher.taken)
        case End():
            end(partition, active)
        case EndWithError(code, description):
            end_with_error(partition, active, code, description)
        case Cleanup():
            active.endpoint.cleanup()
            conclude(partition, active, told=False)
        case Resend():
            resend(partition, active)
        case SetTimer(after, name) if active.endpoint.state is not State.CLOSED:
            active.endpoint.set_timer(NEVER if after < 0 else later(at, after), name)
            if after < 0:
                partition.transmission.carried.forget_timer(active.identity, name)
            else:
                partition.transmission.carried.set_timer(active.identity, name)
            partition.parking.forget_retry(active, rows.timer_handler(name), parking.ENDED)
            partition.touch(active)
    if active.endpoint.state is State.CLOSED and active.endpoint.inbound.held:
        # Only the dialog of a handler is closed after its draft. A command has no handler, and a draft may close other dialogs, too.
        close(partition, active)


# -- operations on one endpoint --------------------------------------------------------------------------------


def send_message(partition: Partition, active: Active, verb: Send) -> None:
    """Transmit a message, in fragments if its body is larger than one record may carry."""
    if isinstance(verb, SendFromPieces):
        referring.refer(partition, active, verb)
        return
    size, body = partition.transmission.fragment_bytes, verb.body
    if len(body) <= size:
        send(partition, active, verb.run or message_run(verb.message_type, verb.content_type), body)
        return
    count = -(-len(body) // size)
    for at, part in enumerate(cut(body, size)):
        run = message_run(verb.message_type, verb.content_type, at, count)
        send(partition, active, run, part, count - 1 - at, 0 if at else len(body))


def send(partition: Partition, active: Active, run: bytes, body: bytes, more: int = 0, size: int = -1) -> None:
    """Give a message or a fragment its number, and transmit it. ``more`` fragments of the message come after it.

    ``size`` is the bytes of the whole message at its first fragment, and 0 at its other fragments.
    """
    endpoint = active.endpoint
    number = endpoint.send()
    if not more:
        partition.context.counts.traffic.count_sent()
    if number == 0 and endpoint.initiator:
        partition.transmission.begin(active)
    if endpoint.resends and size and active.identity not in partition.waiting.delayed.of:
        partition.unacknowledged.make_room(active, number, len(body) if size < 0 else size)
    prefix = active.out or active.out_prefix()
    value = encode_message(prefix, number, endpoint.acknowledge(), partition.context.clock.stamp, run, body)
    partition.transmission.transmit(active, value, number, more)
    partition.touch(active)


def end_stream(partition: Partition, active: Active) -> None:
    """Ask the target to end its side after it has handled all messages, because a pool replaces the dialog."""
    send(partition, active, message_run(END_OF_STREAM, ""), b"")


def end(partition: Partition, active: Active) -> None:
    """End this side of the dialog. If the dialog is broken and something is not acknowledged, ask the peer what it has accepted."""
    if _must_ask(partition, active):
        active.endpoint.settle()
        partition.look_in_time(active)
        conclude(partition, active)
        return
    said = active.endpoint.end()
    if said is not None:
        _say(partition, active, said)
    conclude(partition, active)


def resend(partition: Partition, active: Active) -> None:
    """Ask the peer of a broken dialog what it has accepted, to send the rest again on a new dialog."""
    if active.endpoint.can_renew:
        active.endpoint.renew()
        partition.look_in_time(active)
        conclude(partition, active)


def end_with_error(partition: Partition, active: Active, code: int, description: str) -> None:
    """End this side with an error of the application, and drop the delayed envelopes of the dialog."""
    endpoint = active.endpoint
    if _must_ask(partition, active):
        end(partition, active)
        return
    for _ in range(partition.transmission.forget(active.identity)):
        endpoint.drop()
    said = endpoint.end_with_error(code, description)
    if said is not None:
        _say(partition, active, said)
    conclude(partition, active)


def _must_ask(partition: Partition, active: Active) -> bool:
    endpoint = active.endpoint
    return (
        endpoint.initiator
        and endpoint.state is State.ERROR
        and endpoint.is_unsettled
        and partition.unacknowledged.has(active)
    )


def fail(
    partition: Partition, active: Active, code: SystemCode, description: str = "", *, lost_end: bool = False
) -> None:
    """Break the dialog with a system error code, and tell the peer.

    A peer that gets this side's END needs no ERROR. ``lost_end`` is True if the END was delayed, and is dropped.
    """
    said = active.endpoint.fail(code, description)
    if said is not None:
        _say(partition, active, said)
    elif lost_end and active.endpoint.state is State.ERROR:
        tell_broken(partition, active)
    conclude(partition, active)


def tell_broken(partition: Partition, active: Active) -> None:
    """Tell the peer the error with which this side broke, because it does not get the END that this side said before."""
    error = active.endpoint.error
    if error is not None and error.code < 0:
        _say(partition, active, Transmit(Kind.ERROR, NONE, error.code, error.description))


def acknowledge(partition: Partition, active: Active) -> None:
    """Transmit an ACK: an envelope that has only an acknowledgement."""
    value = encode_ack(active.out_prefix(), active.endpoint.acknowledge(), partition.context.stamp)
    partition.transmission.transmit(active, value)


def tell_skipped(partition: Partition, active: Active, number: int) -> None:
    """Tell the peer that its message was given up on, and that the dialog continues without the message."""
    said = Envelope(
        prefix_of(active.endpoint), Kind.ACK, NONE, active.endpoint.acknowledge(), NONE, (number,),
        sent_at=partition.context.now,
    )  # fmt: skip
    partition.transmission.transmit(active, encode(said))
    partition.touch(active)


def ask_resend(partition: Partition, active: Active) -> None:
    """Ask the peer for missing messages."""
    _say(partition, active, Transmit(Kind.RESEND))


def _say(partition: Partition, active: Active, said: Transmit) -> None:
    endpoint = active.endpoint
    now = partition.context.now
    if said.kind is Kind.END:
        value = encode_end(active.out_prefix(), said.seq, endpoint.acknowledge(), partition.context.stamp)
        partition.transmission.transmit(active, value, said.seq)
        partition.touch(active)
        return
    ack = endpoint.inbound.accepted if said.kind is Kind.RESEND else endpoint.acknowledge()
    # A RESEND names the last missing number of the first gap, too: what is held behind the gap need not be sent again.
    transmitted = (
        endpoint.next_out - 1
        if said.kind is Kind.ERROR
        else endpoint.inbound.gap_end()
        if said.kind is Kind.RESEND
        else NONE
    )
    prefix = prefix_of(endpoint)
    if said.kind is Kind.ERROR and not endpoint.resends and partition.unacknowledged.has(active):
        # The dialog has stopped keeping, and still keeps what was sent before. The peer must not take that over unseen.
        prefix = replace(prefix, resends=True)
    value = encode(
        Envelope(
            prefix,
            said.kind,
            said.seq,
            ack,
            transmitted,
            sent_at=now,
            code=said.code,
            description=said.description,
        )
    )
    # An ERROR with a number is acknowledged. It is lost only between two clusters.
    partition.transmission.transmit(active, value, said.seq if endpoint.far is not None else NONE)
    partition.touch(active)


def conclude(partition: Partition, active: Active, *, told: bool = True, replaced_by: bytes = b"") -> None:
    """Finish a dialog that has ended or is broken. Parked messages become dead letters. If its endpoint is closed, write a tombstone.

    ``replaced_by`` is the id of the dialog that carries on.
    """
    assembly.close(partition, active)
    remember(partition, active, told=told, replaced_by=replaced_by)


def remember(partition: Partition, active: Active, *, told: bool = True, replaced_by: bytes = b"") -> None:
    """Write a tombstone if the endpoint is closed. If a client waits for the end of the dialog, notify the client."""
    endpoint = active.endpoint
    partition.touch(active)
    if endpoint.state is State.CLOSED and active.tombstone is None:
        returned, lost_end = returns.give_back(partition, active, told=told)
        if lost_end and told:
            tell_broken(partition, active)
        context, code = partition.context, endpoint.error.code if endpoint.error else 0
        if endpoint.inbound.missing and not endpoint.is_taken_over:
            code = min(code, 0)  # a positive code says that what is missing is taken over
        forget_at = max(endpoint.started_until, partition.progress.row.queue_time, context.now) + context.periods.grace
        tombstone = rows.Tombstone(
            endpoint.key, endpoint.origin, forget_at, endpoint.inbound.accepted, endpoint.next_out - 1,
            endpoint.discarded, endpoint.dead_lettered, told=told, code=code,
            missing=endpoint.inbound.missing, returned=returned, replaced_by=replaced_by,
        )  # fmt: skip
        active.entomb(tombstone)
        partition.groups.close(active)
        partition.transmission.carried.forget(active.identity)
        for freed in partition.successions.close(endpoint):
            partition.transmission.let_go(freed)
        partition.schedule.tombstones.add(forget_at, rows.ENDPOINT + active.identity)
        partition.schedule.deadlines.forget_one()
        partition.context.counts.count_closed()
    watcher = partition.context.watchers.find(endpoint.conversation) if endpoint.initiator else None
    if watcher is not None and not replaced_by and endpoint.state not in _GOES_ON:
        over, error = watcher.over, endpoint.error
        partition.outbox.notify(lambda: over(error))


def report(partition: Partition, active: Active, failure: Failure, by: str | None) -> None:
    """Report a dialog that broke with a system code, because no handler is called. Do nothing if a client of this process is told.

    An error of the peer's application is not reported: it is a part of the contract, and needs no operator.
    """
    endpoint = active.endpoint
    is_awaited = endpoint.initiator and partition.context.watchers.find(endpoint.conversation) is not None
    if by is not None and failure.code < 0 and not is_awaited:
        partition.letters.dialog_broke(endpoint.conversation, endpoint.peer, failure, by)


# -- the end of a side -----------------------------------------------------------------------------------------


def finish_end(partition: Partition, active: Active) -> None:
    """End this side after the handler of the peer's END or of an error has finished, unless this handler has already ended it."""
    if active.endpoint.state in (State.DISCONNECTED_INBOUND, State.ERROR):
        end(partition, active)
    close(partition, active)


def close(partition: Partition, active: Active) -> None:
    """Process the held envelopes of an ended endpoint as if they arrived now. Messages become dead letters, and an END is accepted.

    The peer of a side that was cleaned up is told of it if its END is held and not accepted, because it waits for an answer.
    """
    endpoint = active.endpoint
    limit = partition.waiting.most_held
    held = endpoint.release_held()
    is_asked = False
    for number in held:
        row = partition.waiting.take_held(active.identity, number)
        if row is None:
            continue
        item = arrival_of(active, row)
        is_left = item.envelope.prefix.resends and number > endpoint.taken_over
        passed = number < endpoint.inbound.next and not is_left  # an ERROR of the peer has skipped this number
        if passed or endpoint.receive(item.envelope, partition.context.now, limit) is Reaction.DISCARD:
            _keep_held(partition, item)
        is_asked = item.envelope.kind is Kind.END and number >= endpoint.inbound.next
    if active.tombstone is not None and held:
        active.tombstone.hear(endpoint.inbound.accepted, endpoint.inbound.missing)
        if is_asked and not active.tombstone.told:
            active.tombstone.tell()
            _say(partition, active, Transmit(Kind.ERROR, NONE, NOT_CONVERSING.number, NOT_CONVERSING.text))
    remember(partition, active)


def _keep_held(partition: Partition, item: Arrival) -> None:
    if item.envelope.kind is Kind.MESSAGE and item.envelope.message_type != END_OF_STREAM:
        partition.letters.dead_letter(item, letters.HELD_AT_END)
        item.active.endpoint.gave_up_on()
        if item.active.tombstone is not None:
            item.active.tombstone.gave_up_on()  # the tombstone was made from the endpoint before


# -- dialogs of other partitions -----------------------------------------------------------------------------------


def _command(partition: Partition, active: Active, operations: list[Operation]) -> None:
    for at in range(0, len(operations), OPERATIONS):  # a command has at most OPERATIONS; all are in one transaction
        append_command(partition, active.identity[:16], active.endpoint.key, operations[at : at + OPERATIONS])


def append_command(partition: Partition, conversation: bytes, group: str, operations: list[Operation]) -> None:
    """Append a command to the commands topic of this service, for the partition that has the group with a key."""
    context = partition.context
    count = context.destinations.partitions(context.name)
    if count is None:
        raise LookupError(f"the topics of service {context.name} exist, but the catalog has no entry for it")
    command = Command(
        context.new_conversation(), conversation, True, group, "", context.name, context.now, tuple(operations)
    )
    key = group.encode()
    headers = headers_of(partition.transmission.carried.trace) or None
    partition.outbox.produce((context.topics.commands, partition_of(key, count), key, encode_command(command), headers))
