"""Which records of a suspect partition may be looked into: after an unclean start a record is announced before it is decoded.

What decodes a record, or commits what came of it, may have ended the process as well as its handler. Records from before the start
wait, in the order of their topic, until they are named in the partition's row and that is committed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from conversations.ports import Record
from conversations.protocol.partition_row import record_name


@dataclass
class Taking:
    """The records of one partition that wait to be announced, and the announced ones."""

    commands: list[Record] = field(default_factory=list)
    """Commands that wait. Records of the queue that wait are the unread ones of ``QueueInput``."""
    holds_queue: bool = False
    """Its queue is held back because records of it wait."""
    holds_commands: bool = False
    """So are its commands."""
    wanted: set[str] = field(default_factory=set)
    """To be announced with the next commit."""
    flying: set[str] = field(default_factory=set)
    """Announced by the commit under way."""
    allowed: set[str] = field(default_factory=set)
    """Announced, and not taken."""

    def hold_queue(self, *, holds: bool) -> bool:
        """Hold the queue back, or not any more; say whether that is new."""
        before, self.holds_queue = self.holds_queue, holds
        return holds != before

    def hold_commands(self, *, holds: bool) -> bool:
        """The same of the commands."""
        before, self.holds_commands = self.holds_commands, holds
        return holds != before

    def take_commands(self) -> list[Record]:
        """Take out the commands that wait."""
        commands, self.commands = self.commands, []
        return commands

    def want(self, names: set[str]) -> None:
        """Announce these with the next commit."""
        self.wanted = names

    @property
    def busy(self) -> bool:
        """Something is announced, or about to be."""
        return bool(self.wanted or self.flying or self.allowed)

    def announced(self) -> set[str]:
        """Bring the wanted records into the commit; return the names for its row."""
        self.flying |= self.wanted
        self.wanted = set()
        return self.allowed | self.flying

    def committed(self) -> None:
        """The records that the row names may be taken."""
        self.allowed |= self.flying
        self.flying = set()


def name_of(record: Record) -> str:
    """Name a record that nobody has looked into."""
    return record_name(record.topic(), record.offset())


def first_of(waiting: Sequence[Sequence[Record]], deaths: Mapping[str, int], most: int) -> tuple[list[str], bool]:
    """Choose what to announce of records that wait, by topic: some together, or one that is to be alone."""
    together: list[str] = []
    for records in waiting:
        for record in records[:most]:
            if (name := name_of(record)) in deaths:
                break
            together.append(name)
    if together:
        return together, False
    return [name_of(records[0]) for records in waiting if records][:1], True
