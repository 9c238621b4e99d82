"""The outcome of the flights, read from Kafka: the state of operations, and the dead letters of both services."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from conversations.ports import Record
from conversations.protocol import letters, rows
from conversations.protocol.envelope import Kind, decode
from conversations.protocol.topics import QUEUE
from conversations_ops.demo.mending import Held
from conversations_ops.demo.messages import Leg, Summary
from conversations_ops.demo.operations import Desk, operations


class Desks:
    """The newest state of every conversation group of ``operations``.

    An aircraft has up to two groups. ``operations`` began the group of the flights, and ``aircraft-log`` began the group of the summary.
    """

    def __init__(self) -> None:
        self._desks: dict[tuple[str, str], Desk] = {}
        self._finished: set[str] = set()
        self.replies = 0

    def take(self, records: Iterable[Record]) -> None:
        """Apply records of the state topic. The records of each partition must be in order."""
        newest = {key: record.value() for record in records if (key := record.key() or b"").startswith(rows.GROUP)}
        for key, value in newest.items():
            origin, _, aircraft = key[len(rows.GROUP) :].decode().partition("\0")
            desk = Desk() if value is None else _desk(value)
            before = self._desks.get((origin, aircraft))
            self._desks[origin, aircraft] = desk
            self.replies += desk.replies - (before.replies if before else 0)
            if desk.summaries:
                self._finished.add(aircraft)

    @property
    def finished(self) -> int:
        """Number of aircraft whose summary has arrived."""
        return len(self._finished)

    @property
    def aircraft(self) -> set[str]:
        """All aircraft that have a state."""
        return {aircraft for _, aircraft in self._desks}

    def of(self, aircraft: str) -> Desk:
        """Return the state of an aircraft, added up over its two groups."""
        desks = [self._desks[key] for key in (("", aircraft), ("aircraft-log", aircraft)) if key in self._desks]
        return Desk(
            replies=sum(desk.replies for desk in desks),
            out_of_order=sum(desk.out_of_order for desk in desks),
            summaries=[summary for desk in desks for summary in desk.summaries],
        )


def _desk(row: bytes) -> Desk:
    group = rows.decode_group(row)
    desk: Desk = operations.state.decode(group.state, group.version)
    return desk


@dataclass(frozen=True)
class DeadLetter:
    """One dead letter."""

    service: str
    aircraft: str
    reason: str
    why: str
    """Type and text of the exception."""
    leg: Leg | None
    """The flight in the letter; None if the record in the letter is not a flight."""
    source: tuple[str, int, int]
    """Topic, partition and offset of the record in the letter."""


def letter_of(service: str, record: Record) -> DeadLetter:
    """Read a record of a dead-letter topic."""
    headers: Mapping[str, bytes] = dict(record.headers() or ())
    topic = headers[letters.SOURCE_TOPIC].decode()
    reason = headers[letters.REASON].decode()
    why = headers.get(letters.EXCEPTION, b"").decode().rpartition(".")[2]
    text = headers.get(letters.EXCEPTION_MESSAGE, b"").decode()
    return DeadLetter(
        service,
        (record.key() or b"").decode(),
        reason,
        ": ".join(filter(None, (why, text))),
        None if reason == letters.SET_ASIDE else _leg(topic, record.value() or b""),
        (topic, int(headers[letters.SOURCE_PARTITION]), int(headers[letters.SOURCE_OFFSET])),
    )


def _leg(topic: str, value: bytes) -> Leg | None:
    if not topic.endswith(f".{QUEUE}"):
        return None
    envelope = decode(value)
    is_leg = envelope.kind is Kind.MESSAGE and envelope.message_type == Leg.__name__
    return Leg.model_validate_json(envelope.body) if is_leg else None


@dataclass
class Outcome:
    """All data that the check compares."""

    desks: Desks = field(default_factory=Desks)
    letters: list[DeadLetter] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    """Flights that were held before the operator acted."""
    waiting: int = 0
    """Number of flights that are held at the end."""

    def summary_of(self, aircraft: str) -> Summary | None:
        """Return the summary of an aircraft; None if there is no summary, or more than one."""
        summaries = self.desks.of(aircraft).summaries
        return summaries[0] if len(summaries) == 1 else None
