"""Strangers: records of dialogs that have no endpoint here. The endpoint does not exist yet, is closed, or never existed."""

from __future__ import annotations

from conversations.protocol import codes, letters, rows
from conversations.protocol.admission import accepted_expiry
from conversations.protocol.codes import SystemCode
from conversations.protocol.effects import Failure, Transmit
from conversations.protocol.endpoint import Endpoint
from conversations.protocol.envelope import Envelope, Extras, FenceOutcome, Kind, Prefix, encode
from conversations.protocol.events import SetAside, Unanswerable
from conversations.protocol.fences import FORGOTTEN
from conversations.protocol.limits import GROUP_MEMBERS
from conversations.protocol.rules import Rule, told
from conversations.protocol.sequencing import NONE, Inbound
from conversations.protocol.spans import Spans
from conversations.protocol.states import State
from conversations.worker.active import Active, Arrival
from conversations.worker.partition import Partition

MAY_NOT_NAME = codes.NOT_PERMITTED.with_text(
    "The contract does not let the sender name the conversation group at the target (group_named_by)."
)
BEFORE_THE_FIRST = 16
"""Limit for the tombstone of a dialog that never began here: at most twice this number of messages are noted as missing.

A message number that would exceed this limit is not noted in the tombstone.
"""


def admit(partition: Partition, item: Arrival) -> bool:
    """Create the target endpoint for the first record of a dialog, and return True.

    If the record may not begin a dialog, refuse the record or set it aside, and return False.
    """
    active, envelope = item.active, item.envelope
    name = envelope.prefix.from_service
    if partition.context.destinations.is_invented(name):
        # The sender has no queue for an answer. So no tombstone is needed, because a tombstone only prevents a second answer.
        _set_aside(partition, item, told(Rule.SENDER, repr(name)))
        return False
    if envelope.kind not in (Kind.MESSAGE, Kind.END):
        _unheard(partition, item)
        return False
    prefix = envelope.prefix
    side = partition.context.sides.get((prefix.contract, False)) if prefix.from_initiator else None
    if not prefix.from_initiator or item.log_time >= prefix.accept_until:
        _refuse(partition, item, codes.NOT_CONVERSING)
        return False
    if 0 <= prefix.expires_at <= partition.context.now:
        # The sender's side has expired as well. If the sender does not know this yet, the answer tells it.
        _refuse(partition, item, codes.LIFETIME)
        return False
    if side is None:
        _refuse(partition, item, codes.CONTRACT_NOT_ACCEPTED)
        return False
    accepted = partition.context.service.accepts_from
    if accepted is not None and name not in accepted:
        _refuse(
            partition,
            item,
            codes.NOT_PERMITTED.with_text(f"The service {partition.context.name} accepts no dialogs from {name}."),
        )
        return False
    is_named = side.contract.shares_groups or item.key.decode() != prefix.reply_key
    if is_named and not side.contract.may_name_group(prefix.from_service):
        _refuse(partition, item, MAY_NOT_NAME)
        return False
    if partition.groups.is_full(active.lane):
        full = f"The conversation group at the target has {GROUP_MEMBERS} dialogs: end some of them first."
        _refuse(partition, item, codes.NOT_CONVERSING.with_text(full))
        return False
    endpoint = Endpoint(
        prefix.conversation_id,
        initiator=False,
        contract=prefix.contract,
        service=partition.context.name,
        peer=prefix.from_service,
        key=item.key.decode(),
        peer_key=prefix.reply_key,
        expires_at=accepted_expiry(partition.context.now, prefix.expires_at, side.contract),
    )
    endpoint.may_start_until(prefix.accept_until)
    endpoint.join_group_of(active.lane.name[0])
    active.place(endpoint, side, prefix)
    partition.transmission.look_far(active)
    partition.groups.join(active)
    partition.context.counts.count_accepted()
    return True


def _unheard(partition: Partition, item: Arrival) -> None:
    """Process an ACK, RESEND, ERROR or FENCE of an unknown conversation.

    An early ERROR or FENCE leaves a tombstone, and a FENCE is answered. Other records are set aside.
    """
    active, envelope = item.active, item.envelope
    if envelope.kind is Kind.FENCE:
        _fence_unknown(partition, item)
        return
    if envelope.kind is Kind.ERROR and envelope.prefix.from_initiator and item.log_time < envelope.prefix.accept_until:
        # The ERROR overtook the first message of its dialog. The dialog is over before its messages arrive.
        _entomb(partition, active, envelope, envelope.code)
        if envelope.seq != NONE:
            _answer(partition, item, envelope.prefix, Transmit(Kind.ACK), ack=envelope.seq)
        return
    _set_aside(partition, item, told(Rule.CONVERSATION, envelope.kind.name))


def _fence_unknown(partition: Partition, item: Arrival) -> None:
    """Answer the FENCE of a conversation that has no endpoint and no tombstone here.

    While this side would remember the conversation, nothing of it was accepted; a tombstone makes sure that its first message does not begin an
    endpoint later. After that, this side may have forgotten the conversation.
    """
    prefix = item.envelope.prefix
    # A tombstone stays for the period ``grace`` after ``accept_until``. So until then, there would be one if there had been an endpoint.
    remembers_until = prefix.accept_until + partition.context.periods.grace
    if max(item.log_time, partition.progress.row.queue_time) < remembers_until:
        _entomb(partition, item.active, item.envelope, item.envelope.code)
        _answer_fence(partition, item, FenceOutcome(NONE, NONE, State.CLOSED.name, False))
    else:
        _answer_fence(partition, item, FenceOutcome(NONE, NONE, FORGOTTEN, False))


def _answer_fence(partition: Partition, item: Arrival, outcome: FenceOutcome) -> None:
    _answer(partition, item, item.envelope.prefix, Transmit(Kind.FENCED), extras=Extras(fence=outcome))


def _set_aside(partition: Partition, item: Arrival, why: str) -> None:
    partition.context.counts.count_set_aside()
    partition.letters.dead_letter(item, letters.SET_ASIDE, why=why)
    partition.letters.event(SetAside(item.topic, item.offset, why))


def _refuse(partition: Partition, item: Arrival, code: SystemCode) -> None:
    """Refuse a record: answer with one error per conversation, write a dead letter, remember the refusal with a tombstone, and report it."""
    active, envelope = item.active, item.envelope
    prefix = envelope.prefix
    if prefix.resends:  # the sender keeps the bytes
        _entomb(partition, active, envelope, code.number)
        partition.context.counts.count_left_to_sender()
    else:
        _entomb(partition, active, envelope, code.number, dead_lettered=1)
        partition.letters.dead_letter(item, letters.REFUSED, code=code.number)
    failure = Failure(code.number, code.text)
    partition.letters.dialog_broke(prefix.conversation_id, prefix.from_service, failure, partition.context.name)
    _answer(partition, item, envelope.prefix, _error(code))


def _entomb(partition: Partition, active: Active, envelope: Envelope, code: int, *, dead_lettered: int = 0) -> None:
    """Write a tombstone for a dialog that does not exist here. It stays until the first message can no longer begin the dialog."""
    context = partition.context
    forget_at = (
        max(envelope.prefix.accept_until, partition.progress.row.queue_time, context.now) + context.periods.grace
    )
    numbers = Inbound()
    if envelope.seq != NONE and not (envelope.prefix.resends and envelope.kind is Kind.MESSAGE):
        numbers.late(envelope.seq, BEFORE_THE_FIRST)
    tombstone = rows.Tombstone(
        active.key.decode(), active.lane.name[0], forget_at,
        numbers.accepted, NONE, 0, dead_lettered, told=True, code=code, missing=numbers.missing,
    )  # fmt: skip
    active.entomb(tombstone)
    _write_tombstone(partition, active)
    partition.schedule.tombstones.add(forget_at, rows.ENDPOINT + active.identity)


def late(partition: Partition, item: Arrival) -> None:
    """Process a record that arrives for a closed dialog.

    A message becomes a dead letter when it arrives for the first time. If the peer was not told that the dialog is over,
    the peer gets an ERROR. An ERROR of the peer's application is acknowledged.
    """
    active, envelope = item.active, item.envelope
    tombstone = active.tombstone
    if tombstone is not None and envelope.kind is Kind.FENCE:
        outcome = FenceOutcome(
            tombstone.taken_over,
            tombstone.transmitted,
            State.CLOSED.name,
            tombstone.dead_lettered > 0,
        )
        _answer_fence(partition, item, outcome)
    if tombstone is not None and envelope.kind is Kind.ERROR and envelope.seq != NONE:
        _late_error(partition, item, tombstone)
        return
    if tombstone is None or envelope.kind not in (Kind.MESSAGE, Kind.END):
        return
    if envelope.prefix.resends and _is_left_to_sender(partition, item, tombstone):
        return
    numbers = Inbound(tombstone.accepted + 1, Spans(tombstone.missing))
    if not numbers.late(envelope.seq, partition.waiting.most_held):
        partition.context.counts.count_duplicate()
        return
    tombstone.hear(numbers.accepted, numbers.missing)
    if envelope.kind is Kind.MESSAGE:
        tombstone.gave_up_on()
        partition.letters.dead_letter(item, letters.AFTER_END)
    if _must_be_told(partition, tombstone, envelope.prefix):
        _answer(partition, item, envelope.prefix, _error(codes.NOT_CONVERSING))
    _write_tombstone(partition, active)


def _late_error(partition: Partition, item: Arrival, tombstone: rows.Tombstone) -> None:
    """Answer an ERROR of the peer's application. Its sender has ended, and waits for the acknowledgement.

    An ERROR usually takes over everything before it. But if the sender keeps a message that this side has not accepted, the ERROR is not
    acknowledged, because the sender would forget the message. The sender learns that the dialog is over, and still has the bytes.
    """
    envelope = item.envelope
    numbers = Inbound(tombstone.accepted + 1, Spans(tombstone.missing))
    limit = partition.waiting.most_held
    if envelope.seq <= tombstone.accepted:
        partition.context.counts.count_duplicate()
        return
    tombstone.tell()
    if numbers.believes(envelope.seq, limit) and not (
        envelope.prefix.resends and envelope.seq > tombstone.taken_over + 1
    ):
        numbers.late(envelope.seq, limit)
        tombstone.hear(numbers.accepted, numbers.missing)
        _answer(partition, item, envelope.prefix, Transmit(Kind.ACK), ack=tombstone.accepted)
    else:
        _answer(partition, item, envelope.prefix, _error(codes.NOT_CONVERSING), ack=tombstone.taken_over)
    _write_tombstone(partition, item.active)


def _is_left_to_sender(partition: Partition, item: Arrival, tombstone: rows.Tombstone) -> bool:
    """Process a late record whose sender keeps it; return False if this side must keep it all the same.

    If its number is accepted, the acknowledgement may be lost, so the record is acknowledged again. If not, the sender learns that the dialog is
    over, and it still has the bytes.
    """
    number, prefix = item.envelope.seq, item.envelope.prefix
    taken_over = tombstone.taken_over
    if number in tombstone.missing and number < taken_over:
        return False
    if number <= taken_over:
        partition.context.counts.count_duplicate()
        _answer(partition, item, prefix, Transmit(Kind.ACK), ack=taken_over)
        return True
    partition.context.counts.count_left_to_sender()
    if _must_be_told(partition, tombstone, prefix):
        _write_tombstone(partition, item.active)
        _answer(partition, item, prefix, _error(codes.NOT_CONVERSING), ack=taken_over)
    return True


def _must_be_told(partition: Partition, tombstone: rows.Tombstone, prefix: Prefix) -> bool:
    """Return True if the peer must learn that the dialog is over, and note that it is told. The last answer may be lost between clusters, or with a seal."""
    before = tombstone.told
    tombstone.tell()
    return not before or partition.context.destinations.may_lose(prefix.from_service)


def left_behind(partition: Partition, item: Arrival) -> None:
    """Write the dead letter of a message that was kept in a row. Its dialog was closed before the turn of the message."""
    active, envelope = item.active, item.envelope
    if envelope.kind is not Kind.MESSAGE:
        return
    partition.letters.dead_letter(item, letters.AFTER_END)
    if active.tombstone is not None:
        active.tombstone.gave_up_on()
        _write_tombstone(partition, active)


def _write_tombstone(partition: Partition, active: Active) -> None:
    if active.tombstone is not None:
        partition.outbox.write(rows.ENDPOINT + active.identity, rows.encode_tombstone(active.tombstone))


def _error(code: SystemCode) -> Transmit:
    return Transmit(Kind.ERROR, NONE, code.number, code.text)


def _answer(
    partition: Partition, item: Arrival, prefix: Prefix, said: Transmit, ack: int = NONE, extras: Extras | None = None
) -> None:
    """Send a system ERROR, an ACK or a FENCED for a conversation that has no endpoint here."""
    context = partition.context
    count = context.destinations.partitions(prefix.from_service)
    if count is None:
        partition.letters.event(Unanswerable(prefix.from_service, said.code))
        return
    answer = Envelope(
        Prefix(
            prefix.conversation_id, not prefix.from_initiator, prefix.contract, context.name, prefix.from_service,
            item.key.decode(), False, 0, prefix.expires_at,
        ),
        said.kind, NONE, ack, NONE, sent_at=context.now, code=said.code, description=said.description,
        extras=extras,
    )  # fmt: skip
    partition.transmission.answer(prefix.from_service, count, prefix.reply_key.encode(), encode(answer))
