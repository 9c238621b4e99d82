"""The suspect partitions of one process, which share its life: a record that must run alone makes all others wait."""

from __future__ import annotations

from threading import Lock
from typing import Protocol
from uuid import uuid4

PROCESS = uuid4().hex
"""Tells this process from those before it: one that lives has not been killed, however its partitions moved."""


class Suspect(Protocol):
    """A partition under suspicion."""

    alone: bool
    """The announced record has its turn alone."""

    @property
    def busy(self) -> bool:
        """Something is announced, or about to be."""

    def go_alone(self) -> None:
        """The next announced record has its turn alone in the process."""


class Stage:
    """The suspect partitions of one process: what runs alone on one of them has all the others wait."""

    def __init__(self, process: str = PROCESS) -> None:
        self.process = process
        self.lock = Lock()
        self._suspects: set[Suspect] = set()
        self._asked: Suspect | None = None
        """Has something at its head that is to run alone: nobody announces anything before it could."""

    def enter(self, suspect: Suspect) -> None:
        """A partition is suspect."""
        with self.lock:
            self._suspects.add(suspect)

    def leave(self, suspect: Suspect) -> None:
        """A partition is not suspect any more, or went away."""
        with self.lock:
            self._suspects.discard(suspect)
        self.ask_no_more(suspect)

    def ask_no_more(self, suspect: Suspect) -> None:
        """A partition has nothing that is to be alone."""
        with self.lock:
            if self._asked is suspect:
                self._asked = None

    def admits(self, suspect: Suspect, *, alone: bool) -> bool:
        """Say whether a suspect may be announced now; one that is to be alone is waited for."""
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
