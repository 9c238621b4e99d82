"""The stage: the partitions of one process that are under suspicion. While a record of one partition runs alone, other partitions wait."""

from __future__ import annotations

from threading import Lock
from typing import Protocol
from uuid import uuid4

PROCESS = uuid4().hex
"""Id of this process. If a partition's row has this id, the announced records in the row have not killed a process.

This is also true after the partition went away and came back.
"""


class Suspect(Protocol):
    """A partition under suspicion."""

    alone: bool
    """True while the announced record runs alone."""

    @property
    def busy(self) -> bool:
        """True if something is announced, or is about to be announced."""

    def go_alone(self) -> None:
        """Let the next announced record run alone in the process."""


class Stage:
    """The partitions of one process that are under suspicion. While a record runs alone, the other partitions announce nothing."""

    def __init__(self, process: str = PROCESS) -> None:
        self.process = process
        self.lock = Lock()
        self._suspects: set[Suspect] = set()
        self._asked: Suspect | None = None
        """The partition whose record is the next to run alone. Until this record has its turn, no other partition announces anything."""

    def enter(self, suspect: Suspect) -> None:
        """Add a partition that is under suspicion."""
        with self.lock:
            self._suspects.add(suspect)

    def leave(self, suspect: Suspect) -> None:
        """Remove a partition that is not under suspicion any more, or is gone."""
        with self.lock:
            self._suspects.discard(suspect)
        self.ask_no_more(suspect)

    def ask_no_more(self, suspect: Suspect) -> None:
        """Note that a partition has no record that must run alone."""
        with self.lock:
            if self._asked is suspect:
                self._asked = None

    def admits(self, suspect: Suspect, *, alone: bool) -> bool:
        """Return True if a partition may announce now. ``alone`` is True if the announced record must run alone.

        While a partition waits to run a record alone, the other partitions may not announce anything.
        """
        with self.lock:
            if self._asked not in (None, suspect) or any(other.alone for other in self._suspects):
                return False
            if not alone:
                return True
            self._asked = suspect
            if any(other.busy for other in self._suspects):
                return False
            self._asked = None
            suspect.go_alone()
            return True
