"""Reads the envelopes of one dialog from its two queue partitions, and tells what became of each."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from enum import StrEnum
from typing import NamedTuple, cast

from conversations.config import Kafka
from conversations.errors import UndecodableRecord
from conversations.kafka.offsets import Ends
from conversations.kafka.restore import BoundedReader
from conversations.ports import Record
from conversations.protocol.envelope import Envelope, Kind, decode
from conversations.protocol.topics import QUEUE, service_topic
from conversations_ops.operate.dialogs import Side

BATCH = 5_000
"""Number of records that are read together."""
EARLIER = 60_000
"""Milliseconds before the id of the dialog was made, because clocks differ."""


class Fate(StrEnum):
    """What became of an envelope at the side that it was sent to."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    """The same envelope came before, and was dropped."""
    EARLY = "early"
    """It is kept until the missing envelopes before it arrive."""
    FAILED = "failed"
    """Its handler failed. It waits for another attempt or for an operator."""
    BEHIND = "behind"
    """It waits behind a failed message."""
    UNREAD = "unread"
    """The owner of the partition has not accepted it yet."""
    UNKNOWN = "unknown"
    """The side that it was sent to is not known any more."""


class Step(NamedTuple):
    """One envelope of the dialog, as its record has it."""

    at: int
    """Time of the record, microseconds since 1970."""
    from_initiator: bool
    kind: Kind
    number: int
    """Sequence number; -1 if the envelope has none."""
    what: str
    """The message type, or the kind of another envelope."""
    size: int
    """Bytes of the record's value."""
    partition: int
    offset: int
    fate: Fate
    code: int
    text: str
    """Description of an error."""


class Limits(NamedTuple):
    """How much one timeline may read."""

    records: int = 100_000
    """Maximum number of records that are read of each partition."""
    seconds: float = 5.0
    """Maximum duration."""
    steps: int = 400
    """Maximum number of envelopes that are kept."""


class Timeline(NamedTuple):
    """The envelopes of a dialog in the order of their times, without acknowledgements."""

    steps: Sequence[Step]
    acknowledgements: int
    complete: bool
    """False if a limit ended the reading."""


class Seat(NamedTuple):
    """A side of a dialog, and the cluster on which it is."""

    kafka: Kafka
    side: Side


def timeline(seats: Sequence[Seat], limits: Limits | None = None) -> Timeline:
    """Read the envelopes of a dialog from its known sides. A side that is not known has no partition to read.

    The reading of a queue ends with the part of it that has the last envelope that the other side has sent. So a repetition that came much
    later is not found. If the other side is not known, the queue is read to its end.

    Raises:
        LogError: a queue cannot be read.
    """
    limits = limits or Limits()
    deadline = time.monotonic() + limits.seconds
    steps: list[Step] = []
    acknowledgements, complete = 0, True
    spans = _spans(seats)
    for kafka, it in seats:
        sent = next((other.sent for _, other in seats if other.initiator != it.initiator), None)
        reading = _Reading(kafka, (it, sent), spans[it.service, it.partition], (limits, deadline))
        found = list(reading.steps())
        acknowledgements += sum(step.kind is Kind.ACK for step in found)
        steps += _fates(it, [step for step in found if step.kind is not Kind.ACK])
        complete = complete and reading.complete
    steps.sort(key=lambda step: (step.at, not step.from_initiator, step.number))
    return Timeline(steps[: limits.steps], acknowledgements, complete and len(steps) <= limits.steps)


def _spans(seats: Sequence[Seat]) -> dict[tuple[str, int], tuple[int, int]]:
    """Return the offsets between which the envelopes to each side are, by service and partition. All queues of a cluster are asked at once."""
    began = min((it.side.began or 0 for it in seats), default=0)
    found = {}
    for kafka, sides in {
        id(it.kafka): (it.kafka, [other.side for other in seats if other.kafka is it.kafka]) for it in seats
    }.values():
        topics = {it.service: service_topic(kafka.namespace, it.service, QUEUE) for it in sides}
        ends = Ends(kafka, topics.values())
        first, last = ends.since(max(began // 1_000 - EARLIER, 0)), ends.decided()
        for it in sides:
            place = topics[it.service], it.partition
            found[it.service, it.partition] = first[place], last[place]
    return found


class _Reading:
    """The reading of the queue partition of one side."""

    def __init__(
        self, kafka: Kafka, of: tuple[Side, int | None], span: tuple[int, int], until: tuple[Limits, float]
    ) -> None:
        self.complete = True
        self._kafka, self._span = kafka, span
        self._side, self._sent = of
        self._limits, self._deadline = until

    def steps(self) -> Iterator[Step]:
        """Yield the envelopes to this side in the order of the log."""
        side, topic = self._side, service_topic(self._kafka.namespace, self._side.service, QUEUE)
        reader = BoundedReader(self._kafka, topic, side.partition, *self._span)
        kept = read = 0
        seen: set[int] = set()
        try:
            while not reader.done and not (read and self._has_all(seen)):
                if time.monotonic() > self._deadline or read >= self._limits.records or kept >= self._limits.steps:
                    self.complete = False
                    return
                records = cast("list[Record]", reader.read_records(min(BATCH, self._limits.records - read)))
                read += len(records)
                for step in _steps_in(records, side):
                    if step.kind is not Kind.ACK:
                        kept += 1
                        seen.add(step.number)
                    yield step
        finally:
            reader.close()

    def _has_all(self, seen: AbstractSet[int]) -> bool:
        return self._sent is not None and seen >= set(range(min(self._sent, self._limits.steps + 1)))


def _steps_in(records: Iterable[Record], side: Side) -> Iterator[Step]:
    for record in records:
        value = record.value() or b""
        if side.conversation not in value:
            continue
        try:
            envelope = decode(value)
        except UndecodableRecord:
            continue
        if envelope.prefix.conversation_id == side.conversation and envelope.prefix.from_initiator != side.initiator:
            yield _step(record, envelope, len(value))


def _step(record: Record, it: Envelope, size: int) -> Step:
    what = it.message_type if it.kind is Kind.MESSAGE else it.kind.name
    return Step(
        record.timestamp()[1] * 1_000, it.prefix.from_initiator, it.kind, it.seq, what, size, record.partition(), record.offset(),
        Fate.UNKNOWN, it.code, it.description,
    )  # fmt: skip


def _fates(side: Side, steps: Sequence[Step]) -> Iterator[Step]:
    """Yield the envelopes to a side with what became of each. ``steps`` are in the order of the log."""
    failed = {it.number for it in side.heads if it.number >= 0}
    waits = min(failed, default=None)
    seen: set[tuple[Kind, int]] = set()
    for step in steps:
        name = step.kind, step.number
        yield step._replace(
            fate=Fate.DUPLICATE if step.number >= 0 and name in seen else _fate(side, step.number, failed, waits)
        )
        seen.add(name)


def _fate(side: Side, number: int, failed: set[int], waits: int | None) -> Fate:
    if number < 0:
        return Fate.ACCEPTED
    if number in failed:
        return Fate.FAILED
    if waits is not None and waits < number < side.accepted:
        return Fate.BEHIND
    if number < side.accepted or side.closed is not None:
        return Fate.ACCEPTED
    return Fate.EARLY if side.waits.held.records else Fate.UNREAD
