"""What the checker is given: the committed records of all topics, the plan of the run, and what the handlers noted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.chaos.checker.fates import Fate

Place = tuple[str, int]
"""A topic and one of its partitions."""
Position = tuple[str, int, int]
"""Topic, partition, offset."""


class Record(NamedTuple):
    """One committed record."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """Milliseconds since 1970."""
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def position(self) -> Position:
        """Where it is."""
        return self.topic, self.partition, self.offset


@dataclass(frozen=True, slots=True)
class Log:
    """The topics of a run, read committed to the end."""

    records: Sequence[Record]
    ends: Mapping[Place, int]
    """Offset after the last record or marker of every partition, those of open transactions included."""
    stable: Mapping[Place, int] = field(default_factory=dict)
    """Offset at which the first open transaction begins; the end where it is not given."""


class HandlerRun(NamedTuple):
    """A line a handler left: it ran for a message, which says nothing about whether that was committed."""

    conversation: str
    initiator: bool
    """The side the handler is on."""
    n: int


Notes = Mapping[str, Sequence[HandlerRun]]
"""What the handlers of each process noted, in their order."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What the driver meant to happen."""

    namespace: str
    initiator: str
    target: str
    dialogs: Mapping[str, int]
    """Conversation id to number of entries."""
    ends: frozenset[str]
    """Dialogs that were meant to end."""
    injected: Mapping[Position, str]
    """Records no service has sent, and their kind."""
    fates: Mapping[str, Fate] = field(default_factory=dict)
    """Conversation id to the entry of it that fails."""
    divided_by: float = 1.0
    """By how much all periods of the product were shortened."""
