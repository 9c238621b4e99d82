"""Counts of a worker since it started."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counts:
    """Each number only grows, by one at a time."""

    handled: int = 0
    """Messages whose handler finished, or that are ignored by declaration."""
    failures: int = 0
    """Runs of handlers that raised or took too long."""
    duplicates: int = 0
    """Envelopes that had taken effect before."""
    dead_letters: int = 0
    """Records given up on, with their bytes kept."""
    set_aside: int = 0
    """Records that could not be understood, with their bytes kept."""
    commands: int = 0
    """Commands of clients, operators and other partitions that had their turn."""
    begun: int = 0
    """Dialogs begun here as initiator."""
    accepted: int = 0
    """Dialogs begun by others that were accepted."""
    closed: int = 0
    """Dialogs that are over on this side."""
    commits: int = 0
    """Transactions."""
    fenced: int = 0
    """Commits refused because a partition had another owner."""

    def count_handled(self) -> None:
        """A message was handled."""
        self.handled += 1

    def count_failure(self) -> None:
        """A handler raised, or took too long."""
        self.failures += 1

    def count_duplicate(self) -> None:
        """An envelope or a command had taken effect before."""
        self.duplicates += 1

    def count_dead_letter(self) -> None:
        """A record became a dead letter."""
        self.dead_letters += 1

    def count_set_aside(self) -> None:
        """A record was set aside."""
        self.set_aside += 1

    def count_command(self) -> None:
        """A command had its turn."""
        self.commands += 1

    def count_begun(self) -> None:
        """A dialog began here."""
        self.begun += 1

    def count_accepted(self) -> None:
        """A dialog of a peer was accepted."""
        self.accepted += 1

    def count_closed(self) -> None:
        """A dialog is over on this side."""
        self.closed += 1

    def count_commit(self) -> None:
        """A transaction was committed."""
        self.commits += 1

    def count_fenced(self) -> None:
        """A commit was fenced."""
        self.fenced += 1
