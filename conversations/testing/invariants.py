"""What must hold of services at rest, read from their topics; the numbers are those of the design's invariants."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from conversations.errors import UndecodableRecord
from conversations.handlers import Side
from conversations.memory.broker import MemoryRecord
from conversations.protocol import rows
from conversations.protocol.endpoint import Endpoint
from conversations.protocol.envelope import HEADER_NAME, Kind, decode, split_header
from conversations.protocol.sequencing import NONE
from conversations.protocol.states import State
from conversations.protocol.topics import DEAD_LETTER, QUEUE, STATE, service_topic
from conversations.testing.faults import FaultyBroker
from conversations.testing.reading import endpoints, state_of, visible
from conversations.worker import letters

Sides = Mapping[str, Mapping[tuple[str, bool], Side]]
Direction = tuple[bytes, bool]
"""A conversation, and whether its messages go to the side that began it."""


class Sent(NamedTuple):
    """One numbered envelope that reached a queue."""

    service: str
    kind: Kind
    message_type: str
    contract: str


def name_of(conversation: bytes) -> str:
    """Write a conversation id down."""
    return str(UUID(bytes=conversation))


def check(broker: FaultyBroker, sides: Sides) -> None:
    """Check every invariant that can be read off the topics.

    Raises:
        AssertionError: the first that does not hold.
    """
    facts = _Facts(broker, sides)
    _in_order(broker)
    _tombstones(broker)
    _acknowledged(facts)
    _accounted(facts)
    _told(facts)


class _Facts:
    """Everything that was sent and what became of it."""

    def __init__(self, broker: FaultyBroker, sides: Sides) -> None:
        self.broker = broker
        self.sides = sides
        self.ends: dict[tuple[bytes, bool], tuple[str, Endpoint | rows.Tombstone]] = {}
        """By (conversation, side that began it)."""
        self.sent: dict[Direction, dict[int, Sent]] = defaultdict(dict)
        self.flying: set[Direction] = set()
        """Directions with records that were not read yet, or that wait or are delayed."""
        self.kept: dict[Direction, Counter[int]] = defaultdict(Counter)
        self.waiting: dict[Direction, set[int]] = defaultdict(set)
        for service in broker.services:
            self._read(service)
        for out in broker.late + broker.stopped:
            conversation, from_initiator, _, _ = split_header(dict(out.headers or ())[HEADER_NAME])
            self.flying.add((conversation, not from_initiator))
        handled = broker.ledger.handled
        self.handled = {(entry.conversation, entry.to_initiator, entry.number) for entry in handled}

    def _read(self, service: str) -> None:
        for identity, found in endpoints(self.broker, service).items():
            self.ends[identity[:16], identity[16] == 1] = service, found
        queue = self.broker.topics[service_topic(self.broker.namespace, service, QUEUE)]
        for records, table in zip(queue, state_of(self.broker, service), strict=True):
            row = table.get(rows.PARTITION)
            position = rows.decode_partition(row).queue if row is not None else 0
            for record in records:
                if record.visible:
                    self._note(service, record, read=record.offset() < position)
            for key, value in table.items():
                self._note_row(key, value)
        for record in visible(self.broker, service_topic(self.broker.namespace, service, DEAD_LETTER)):
            self._note_letter(record)

    def _note(self, service: str, record: MemoryRecord, read: bool) -> None:
        try:
            envelope = decode(record.value() or b"")
        except UndecodableRecord:
            return  # somebody's noise: set aside
        direction = envelope.prefix.conversation_id, not envelope.prefix.from_initiator
        if not read:
            self.flying.add(direction)
        if envelope.seq != NONE:
            sent = Sent(service, envelope.kind, envelope.message_type, envelope.prefix.contract)
            self.sent[direction].setdefault(envelope.seq, sent)

    def _note_row(self, key: bytes, value: bytes) -> None:
        if key[:1] not in {rows.HELD, rows.DELAYED, rows.WAITING}:
            return
        row = rows.decode_waiting(value)
        try:
            envelope = decode(row.value)
        except UndecodableRecord:
            return  # a command that waits
        direction = envelope.prefix.conversation_id, not envelope.prefix.from_initiator
        if key.startswith(rows.DELAYED):
            self.flying.add(direction)
        else:
            self.waiting[direction].add(envelope.seq)

    def _note_letter(self, record: MemoryRecord) -> None:
        headers = dict(record.headers() or ())
        if headers[letters.REASON].decode() in {letters.SET_ASIDE, letters.COMMAND_REFUSED}:
            return
        try:
            envelope = decode(record.value() or b"")
        except UndecodableRecord:
            return
        direction = envelope.prefix.conversation_id, not envelope.prefix.from_initiator
        if envelope.kind is Kind.MESSAGE:
            self.kept[direction][envelope.seq] += 1

    def ignored(self, sent: Sent, to_initiator: bool) -> bool:
        """Say whether the receiver declared that it does nothing about this type."""
        side = self.sides.get(sent.service, {}).get((sent.contract, to_initiator))
        receiver = side.receivers.get(sent.message_type) if side is not None else None
        return receiver is not None and receiver[1] is None


def _in_order(broker: FaultyBroker) -> None:
    last: dict[tuple[str, bytes, bool], int] = {}
    for entry in broker.ledger.handled:
        direction = entry.service, entry.conversation, entry.to_initiator
        before = last.get(direction, NONE)
        what = f"{entry.service}: message {entry.number} of {name_of(entry.conversation)} was handled"
        if entry.number == before:
            raise AssertionError(f"invariant 4 (once): {what} twice")
        if entry.number < before:
            raise AssertionError(f"invariant 3 (in order): {what} after {before}")
        last[direction] = entry.number


def _tombstones(broker: FaultyBroker) -> None:
    for service in broker.services:
        for records in broker.topics[service_topic(broker.namespace, service, STATE)]:
            table: dict[bytes, bytes] = {}
            forgotten: list[tuple[bytes, bytes]] = []
            for key, value in ((r.key() or b"", r.value()) for r in records if r.visible):
                if value is None:
                    row = table.pop(key, None)
                    if row is not None and key.startswith(rows.ENDPOINT):
                        forgotten.append((key[1:], row))
                    continue
                table[key] = value
                if key == rows.PARTITION:  # the last row of a transaction: says up to when its time had passed
                    _check_forgotten(service, forgotten, rows.decode_partition(value).queue_time if forgotten else 0)
                    forgotten.clear()


def _check_forgotten(service: str, forgotten: Sequence[tuple[bytes, bytes]], queue_time: int) -> None:
    for identity, row in forgotten:
        what = f"{service}: the endpoint of {name_of(identity[:16])}"
        if not rows.is_tombstone(row):
            raise AssertionError(f"invariant 4 (once): {what} was forgotten without a tombstone")
        if rows.decode_tombstone(row).forget_at > queue_time:
            raise AssertionError(f"invariant 4 (once): {what} lost its tombstone before its log time")


def _acknowledged(facts: _Facts) -> None:
    for (conversation, initiator), (service, found) in facts.ends.items():
        if isinstance(found, rows.Tombstone):
            continue
        what = f"{service}: {name_of(conversation)}"
        if found.acked >= found.next_out:
            raise AssertionError(f"invariant 5 (nothing lost): {what} has acknowledgements of what it never sent")
        other = facts.ends.get((conversation, not initiator))
        accepted = NONE
        if other is not None:
            accepted = other[1].accepted if isinstance(other[1], rows.Tombstone) else other[1].inbound.accepted
            if found.acked > accepted:
                raise AssertionError(
                    f"invariant 5 (nothing lost): {what} believes {found.acked} accepted, the peer accepted {accepted}"
                )


def _accounted(facts: _Facts) -> None:
    for (conversation, to_initiator), sent in facts.sent.items():
        for number, problem in _unaccounted(facts, (conversation, to_initiator), sent):
            message = sent.get(number)
            where = message.service if message is not None else "?"
            raise AssertionError(
                f"invariant 5 (nothing lost): message {number} of {name_of(conversation)} to {where} {problem}"
            )


def _unaccounted(facts: _Facts, direction: Direction, sent: Mapping[int, Sent]) -> Iterator[tuple[int, str]]:
    numbers = sorted(sent)
    if direction not in facts.flying and numbers != list(range(len(numbers))):
        yield next(n for n, m in enumerate([*numbers, NONE]) if n != m), "was never transmitted"
    for number, message in sent.items():
        if message.kind is not Kind.MESSAGE:
            continue
        kept = facts.kept[direction][number]
        handled = (*direction, number) in facts.handled
        waiting = number in facts.waiting[direction]
        outcomes = kept + handled + waiting
        if outcomes > 1:
            yield number, f"has {outcomes} outcomes: handled {handled}, dead letters {kept}, waiting {waiting}"
        if outcomes or direction in facts.flying or facts.ignored(message, direction[1]):
            continue
        yield number, "was neither handled nor kept"


def _told(facts: _Facts) -> None:
    for (conversation, initiator), (service, found) in facts.ends.items():
        if isinstance(found, rows.Tombstone) or found.state is State.CLOSED:
            continue
        if {(conversation, True), (conversation, False)} & facts.flying:
            continue
        other = facts.ends.get((conversation, not initiator))
        if other is not None and isinstance(other[1], rows.Tombstone):
            raise AssertionError(
                f"invariant 7 (no silent end): {name_of(conversation)} is over at {other[0]}, {service} is still in "
                f"state {found.state.name}"
            )
