"""Taking: after an unclean start, a record is announced before it is decoded.

The handler of a record is not the only danger. The last process may also have died while it decoded the record, or while it committed the
result. So records from before the start wait, in the order of their topic, until a commit has written their names into the partition's row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from conversations.ports import Record
from conversations.protocol.partition_row import record_name


@dataclass
class Taking:
    """The records of one partition that wait to be announced, and the names of the announced records."""

    commands: list[Record] = field(default_factory=list)
    """Commands that wait. Waiting records of the queue are in ``QueueInput.unread``."""
    holds_queue: bool = False
    """True while the queue's input is paused because records of the queue wait."""
    holds_commands: bool = False
    """True while the commands' input is paused because commands wait."""
    wanted: set[str] = field(default_factory=set)
    """Names to be announced with the next commit."""
    flying: set[str] = field(default_factory=set)
    """Names announced by the commit under way."""
    allowed: set[str] = field(default_factory=set)
    """Names of announced records that are not decoded yet."""

    def hold_queue(self, *, holds: bool) -> bool:
        """Note whether the queue is held back; return True if this has changed."""
        before, self.holds_queue = self.holds_queue, holds
        return holds != before

    def hold_commands(self, *, holds: bool) -> bool:
        """Note whether the commands are held back; return True if this has changed."""
        before, self.holds_commands = self.holds_commands, holds
        return holds != before

    def take_commands(self) -> list[Record]:
        """Return the commands that wait, and clear the list."""
        commands, self.commands = self.commands, []
        return commands

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
