"""Taking: after an unclean start, a record is announced before it is decoded.

The handler of a record is not the only danger. The last process may also have died while it decoded the record, or while it committed the
result. So records from before the start wait, in the order of their topic, until a commit has written their names into the partition's row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from conversations.ports import Record
from conversations.protocol.partition_row import record_name
from conversations.protocol.topics import COMMANDS, DECISIONS, kind_of


@dataclass
class Taking:
    """The records of one partition that wait to be announced, and the names of the announced records."""

    waiting: dict[str, list[Record]] = field(default_factory=lambda: {DECISIONS: [], COMMANDS: []})
    """Decisions and commands that wait, by kind of topic. Waiting records of the queue are in ``QueueInput.unread``."""
    held: set[str] = field(default_factory=set)
    """Kinds of topics whose input is paused because records of it wait."""
    wanted: set[str] = field(default_factory=set)
    """Names to be announced with the next commit."""
    flying: set[str] = field(default_factory=set)
    """Names announced by the commit under way."""
    allowed: set[str] = field(default_factory=set)
    """Names of announced records that are not decoded yet."""

    def hold(self, kind: str, *, holds: bool) -> bool:
        """Note whether an input is held back; return True if this has changed."""
        changed = holds is not (kind in self.held)
        (self.held.add if holds else self.held.discard)(kind)
        return changed

    def of(self, topic: str) -> list[Record]:
        """Return the records of the commands or the decisions that wait, as a list to append to."""
        return self.waiting[kind_of(topic)]

    def take_waiting(self) -> list[Record]:
        """Return the decisions and then the commands that wait, and clear the lists."""
        records = [record for those in self.waiting.values() for record in those]
        self.waiting = {kind: [] for kind in self.waiting}
        return records

    @property
    def waits(self) -> bool:
        """True if decisions or commands wait."""
        return any(self.waiting.values())

    def want(self, names: set[str]) -> None:
        """Announce these names with the next commit."""
        self.wanted = names

    @property
    def busy(self) -> bool:
        """True if something is announced, or is about to be announced."""
        return bool(self.wanted or self.flying or self.allowed)

    def announced(self) -> set[str]:
        """Announce the wanted names with the commit that begins now; return all names for the partition's row."""
        self.flying |= self.wanted
        self.wanted = set()
        return self.allowed | self.flying

    def committed(self) -> None:
        """Note that the partition's row is committed. The records whose names are in the row may be decoded now."""
        self.allowed |= self.flying
        self.flying = set()


def name_of(record: Record) -> str:
    """Return the name of a record that is not decoded."""
    return record_name(record.topic(), record.offset())


def first_of(waiting: Sequence[Sequence[Record]], deaths: Mapping[str, int], most: int) -> tuple[list[str], bool]:
    """Choose the waiting records to announce next. Return their names, and True if the chosen record must run alone.

    Args:
        waiting: a sequence of waiting records for each topic.
        deaths: the number of deaths for each record, by its name. A record whose name is in ``deaths`` must run alone.
        most: maximum number of records from each topic.
    """
    together: list[str] = []
    for records in waiting:
        for record in records[:most]:
            if (name := name_of(record)) in deaths:
                break
            together.append(name)
    if together:
        return together, False
    return [name_of(records[0]) for records in waiting if records][:1], True
