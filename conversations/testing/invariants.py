"""Checks the invariants of services by reading the topics. The invariants have the same numbers as in docs/guarantees.md.

1. One writer: only the last member that opened a partition commits its state (``broker`` checks each commit), and the numbers in
   the rows never decrease.
2. One step: the group's offsets and the partition's row agree.
3. In order: messages are handled in the order of their numbers.
4. Once: no message is handled twice, and no number is given to two messages or transmitted by two transactions.
5. Nothing lost: every number that was sent is in exactly one place.
6. Poison is local: a letter with the reason "handler-failed" exists only if a handler of the same dialog failed.
7. No silent end: when one side is closed, the other side learns it.
8. Bounded: held records stay within their limit (``bounds`` checks memory).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from conversations.memory.record import MemoryRecord
from conversations.protocol import letters, rows
from conversations.protocol.endpoint import Endpoint
from conversations.protocol.envelope import Kind
from conversations.protocol.partition_row import decode_decided
from conversations.protocol.sequencing import NONE
from conversations.protocol.states import ASKING, State
from conversations.protocol.topics import COMMANDS, DECISIONS, STATE, service_topic
from conversations.testing.broker import FaultyBroker
from conversations.testing.facts import Direction, Facts, Sent, Sides, name_of, partition_row
from conversations.testing.ledger import Ledger
from conversations.testing.reading import state_of

__all__ = ["Invariants", "name_of"]

_WAITING = ASKING | {State.DISCONNECTED_OUTBOUND}
"""States in which a side waits for an answer of its peer."""


class Invariants:
    """Checks every invariant that can be read from the topics. ``check`` may be called as often as needed.

    Args:
        brokers: the brokers of both clusters.
        held_limit: maximum number of held records per dialog.
    """

    def __init__(self, brokers: Sequence[FaultyBroker], held_limit: int) -> None:
        self._brokers = brokers
        self._held_limit = held_limit
        self._histories: dict[tuple[str, int], _History] = {}

    def check(self, sides: Sides, *, at_rest: bool) -> None:
        """Check all invariants now. Some must hold only ``at_rest``: when no step or handler is under way.

        Raises:
            AssertionError: an invariant does not hold. The message names the first such invariant.
        """
        for broker in self._brokers:
            for service in broker.services:
                topic = service_topic(broker.namespace, service, STATE)
                for partition, records in enumerate(broker.topics[topic]):
                    history = self._histories.setdefault((service, partition), _History(service, self._held_limit))
                    history.read(records, broker.stable_end(topic, partition))
        _check(Facts(self._brokers, sides), at_rest=at_rest)


def _check(facts: Facts, *, at_rest: bool) -> None:
    for broker in facts.brokers:
        _one_step(broker)
    _in_order(facts)
    _transmitted_once(facts.ledger)
    _acknowledged(facts)
    _accounted(facts)
    _set_aside(facts)
    _poison_is_local(facts)
    if at_rest:
        _told(facts)


# -- 1, 2: one writer, one step --------------------------------------------------------------------------------------


class _History:
    """The rows of one state partition, checked in the order in which they were committed."""

    def __init__(self, service: str, held_limit: int) -> None:
        self._service = service
        self._held_limit = held_limit
        self._held: Counter[bytes] = Counter()
        self._table: dict[bytes, bytes] = {}
        self._ends: dict[bytes, tuple[int, ...]] = {}
        self._position: tuple[int, ...] = ()
        self._decided = 0
        self._forgotten: list[tuple[bytes, bytes]] = []
        self._read = 0

    def read(self, records: Sequence[MemoryRecord], end: int) -> None:
        """Read the new records, up to the first record of an undecided transaction."""
        for record in records[self._read : end]:
            if record.visible:
                self.take(record.key() or b"", record.value())
        self._read = min(end, len(records))

    def take(self, key: bytes, value: bytes | None) -> None:
        if key.startswith(rows.HELD):
            self._held[key[1:18]] += (value is not None) - (key in self._table)
        if value is None:
            row = self._table.pop(key, None)
            if row is not None and key.startswith(rows.ENDPOINT):
                self._forgotten.append((key[1:], row))
            return
        self._table[key] = value
        if key.startswith(rows.ENDPOINT):
            self._endpoint(key, value)
        elif key == rows.PARTITION:  # the last row of a transaction; it has the log time of the transaction
            self._partition(value)
        elif key == rows.DECIDED:
            self._check_decided(decode_decided(value).position)

    def _endpoint(self, key: bytes, value: bytes) -> None:
        if rows.is_tombstone(value):
            row = rows.decode_tombstone(value)
            numbers: tuple[int, ...] = (row.accepted + 1, row.transmitted + 1)
        else:
            endpoint, _ = rows.decode_endpoint(key[1:], value, self._service)
            numbers = endpoint.inbound.next, endpoint.next_out, endpoint.acked
        before = self._ends.get(key, (0, 0, NONE))
        if any(now < then for now, then in zip(numbers, before, strict=False)):
            raise AssertionError(
                f"invariant 1 (one writer): {self._service}: the endpoint of {name_of(key[1:17])} went back from {before} "
                f"to {numbers} (next in, next out, acknowledged)"
            )
        if len(before) < len(numbers):
            raise AssertionError(
                f"invariant 4 (once): {self._service}: {name_of(key[1:17])} was closed, and is open again"
            )
        self._ends[key] = numbers

    def _check_decided(self, position: int) -> None:
        if position < self._decided:
            raise AssertionError(
                f"invariant 1 (one writer): {self._service}: the position in the decisions went back from {self._decided} to {position}"
            )
        self._decided = position

    def _partition(self, value: bytes) -> None:
        row = partition_row(value)
        position = row.queue, row.commands, row.queue_time
        if any(now < then for now, then in zip(position, self._position, strict=False)):
            raise AssertionError(
                f"invariant 1 (one writer): {self._service}: a partition went back from {self._position} to {position} "
                f"(queue, commands, log time)"
            )
        self._position = position
        for identity, count in self._held.items():
            if count > self._held_limit:
                raise AssertionError(
                    f"invariant 8 (bounded): {count} records of {name_of(identity[:16])} are held, the limit is "
                    f"{self._held_limit}"
                )
        for identity, forgotten in self._forgotten:
            _check_forgotten(self._service, identity, forgotten, row.queue_time)
            self._ends.pop(rows.ENDPOINT + identity, None)
        self._forgotten.clear()


def _check_forgotten(service: str, identity: bytes, row: bytes, queue_time: int) -> None:
    what = f"{service}: the endpoint of {name_of(identity[:16])}"
    if not rows.is_tombstone(row):
        raise AssertionError(f"invariant 4 (once): {what} was forgotten without a tombstone")
    if rows.decode_tombstone(row).forget_at > queue_time:
        raise AssertionError(f"invariant 4 (once): {what} lost its tombstone before log time reached its end")


def _one_step(broker: FaultyBroker) -> None:
    for service in broker.services:
        offsets = broker.groups[service].offsets
        for partition, table in enumerate(state_of(broker, service)):
            row = table.get(rows.PARTITION)
            position = partition_row(row).queue if row is not None else None
            if position != offsets.get(partition):
                raise AssertionError(
                    f"invariant 2 (one step): {service}: partition {partition} has position {position} in its row, and "
                    f"{offsets.get(partition)} in the consumer group"
                )


# -- 3, 4: in order, once ----------------------------------------------------------------------------------------------


def _in_order(facts: Facts) -> None:
    last: dict[Direction, int] = {}
    settled: dict[Direction, set[int]] = {}
    for step in facts.ledger.steps:
        for letter in step.letters:
            settled.setdefault((letter.conversation, letter.to_initiator), set()).add(letter.number)
        for entry in step.handled:
            direction = entry.conversation, entry.to_initiator
            before = last.get(direction, NONE)
            what = f"{entry.service}: message {entry.number} of {name_of(entry.conversation)} was handled"
            if entry.number == before:
                raise AssertionError(f"invariant 4 (once): {what} twice")
            if entry.number < before:
                raise AssertionError(f"invariant 3 (in order): {what} after {before}")
            known = settled.setdefault(direction, set())
            for number in range(before + 1, entry.number):
                sent = facts.sent[direction].get(number)
                is_part = sent is not None and (sent.last == entry.number or sent.last in known)
                if number not in known and not is_part and not (sent is not None and facts.ignored(sent, direction[1])):
                    raise AssertionError(f"invariant 3 (in order): {what} before {number} was settled")
            last[direction] = entry.number


def _transmitted_once(ledger: Ledger) -> None:
    for (conversation, _, number), count in ledger.said.items():
        if count > 1:
            raise AssertionError(
                f"invariant 4 (once): number {number} of {name_of(conversation)} was sent by {count} transactions"
            )


# -- 5: nothing lost -----------------------------------------------------------------------------------------------------


def _acknowledged(facts: Facts) -> None:
    for (conversation, initiator), (service, found) in facts.ends.items():
        if isinstance(found, rows.Tombstone):
            continue
        what = f"{service}: {name_of(conversation)}"
        if found.acked >= found.next_out:
            raise AssertionError(f"invariant 5 (nothing lost): {what} has acknowledgements of unsent numbers")
        other = facts.ends.get((conversation, not initiator))
        if other is not None and found.acked > (accepted := _accepted(other[1])):
            raise AssertionError(
                f"invariant 5 (nothing lost): {what} has acknowledgements up to {found.acked}, but the peer accepted up to {accepted}"
            )


def _accepted(found: Endpoint | rows.Tombstone) -> int:
    return found.accepted if isinstance(found, rows.Tombstone) else found.inbound.accepted


def _accounted(facts: Facts) -> None:
    for direction, sent in facts.sent.items():
        for number, message in sent.items():
            problem = _problem(facts, direction, number, message)
            if problem:
                raise AssertionError(
                    f"invariant 5 (nothing lost): message {number} of {name_of(direction[0])} to {message.service} {problem}"
                )
    finished = Counter((conversation, to_initiator) for conversation, to_initiator, _ in facts.handled.elements())
    for (conversation, initiator), (service, found) in facts.ends.items():
        if isinstance(found, Endpoint) and found.handled >= 0:
            _check_handled(facts, service, found, finished[conversation, initiator])
        _check_sum(facts, service, (conversation, not initiator), found)


def _check_handled(facts: Facts, service: str, found: Endpoint, finished: int) -> None:
    """Check the number of handled messages in a receiver's row.

    This number has all messages whose handlers finished. It may also have messages that the receiver ignores, but no others.
    """
    direction = found.conversation, found.initiator
    ignored = sum(facts.ignored(sent, found.initiator) for sent in facts.sent.get(direction, {}).values())
    if not finished <= found.handled <= finished + ignored:
        raise AssertionError(
            f"invariant 5 (nothing lost): {service} counts {found.handled} messages of {name_of(found.conversation)} as "
            f"handled, {finished} handlers finished, {ignored} messages need no handler"
        )


def _check_sum(facts: Facts, service: str, direction: Direction, found: Endpoint | rows.Tombstone) -> None:
    """Check that each message in a sender's count is in the topics, or was discarded by the sender. No other message may be there."""
    count = found.transmitted + 1 if isinstance(found, rows.Tombstone) else found.next_out
    there = {number for number in facts.sent.get(direction, ()) if number < count}
    there |= facts.with_sender[direction]
    if facts.replaced_by(direction):
        there |= set(range(facts.accepted(direction) + 1, count))
    if len(there) < count - found.discarded:
        missing = sorted(set(range(count)) - there)
        raise AssertionError(
            f"invariant 5 (nothing lost): {service} counts {count} sent on {name_of(direction[0])}, of which {missing} are "
            f"nowhere, and {found.discarded} discarded"
        )
    beyond = [number for number in facts.sent.get(direction, ()) if number >= count]
    if beyond:
        raise AssertionError(
            f"invariant 1 (one writer): {name_of(direction[0])} carries {beyond}, which its sender {service} does not count"
        )


def _problem(facts: Facts, direction: Direction, number: int, message: Sent) -> str:
    if message.kind is not Kind.MESSAGE:
        return ""
    kept = facts.kept[direction][number]
    handled = facts.handled[*direction, number]
    waiting = facts.waiting[direction][number]
    outcomes = kept + handled + waiting
    if outcomes and facts.sent_again(message):
        return "has an outcome, and was sent again on another dialog"
    if outcomes > 1:
        return f"has {outcomes} outcomes: handled {handled}, dead letters {kept}, waiting {waiting}"
    if outcomes or number in facts.under_way[direction] or facts.ignored(message, direction[1]):
        return ""
    if number in facts.with_sender[direction] or number in facts.uncertain[direction]:
        return ""
    if facts.sent_again(message):
        return ""
    return "was neither handled nor kept"


def _set_aside(facts: Facts) -> None:
    """Check that each unusable record was set aside exactly once; at most once while its service has unread records."""
    for broker in facts.brokers:
        for service, noise in broker.noise.items():
            found = facts.set_aside[service]
            if found > noise or (found < noise and service not in facts.unread and not _hidden(broker, service)):
                raise AssertionError(
                    f"invariant 5 (nothing lost): {service} set {found} of {noise} unusable records aside"
                )


def _hidden(broker: FaultyBroker, service: str) -> bool:
    """Return True if a service has commands or decisions that were not read; unusable records may be among them."""
    for number, table in enumerate(state_of(broker, service)):
        row, decided = table.get(rows.PARTITION), table.get(rows.DECIDED)
        positions = {
            COMMANDS: partition_row(row).commands if row is not None else 0,
            DECISIONS: decode_decided(decided).position if decided is not None else 0,
        }
        for kind, position in positions.items():
            records = broker.topics[service_topic(broker.namespace, service, kind)][number]
            if any(record.visible and record.offset() >= position for record in records):
                return True
    return False


# -- 6, 7, 8: poison is local, no silent end, bounded ----------------------------------------------------------------------


def _poison_is_local(facts: Facts) -> None:
    for step in facts.ledger.steps:
        for letter in step.letters:
            failed = (letter.service, letter.conversation) in facts.ledger.failed
            if letter.reason == letters.HANDLER_FAILED and not failed:
                raise AssertionError(
                    f"invariant 6 (poison is local): {letter.service} gave up on {name_of(letter.conversation)}, none of "
                    f"whose handlers failed"
                )


def _told(facts: Facts) -> None:
    for (conversation, initiator), (service, found) in facts.ends.items():
        if isinstance(found, rows.Tombstone) or found.state is State.CLOSED:
            continue
        if {(conversation, True), (conversation, False)} & facts.flying or (conversation, initiator) in facts.parked:
            continue
        other = facts.ends.get((conversation, not initiator))
        if (
            other is not None
            and isinstance(other[1], rows.Tombstone)
            and not other[1].told
            and found.state not in _WAITING
        ):
            continue  # a cleanup tells the peer nothing before the peer sends something, or if it waits for nothing
        gone = other is None and found.inbound.accepted > NONE
        if gone or (other is not None and isinstance(other[1], rows.Tombstone)):
            where = other[0] if other is not None else found.peer
            raise AssertionError(
                f"invariant 7 (no silent end): {name_of(conversation)} is over at {where}, {service} is still in state "
                f"{found.state.name}"
            )
