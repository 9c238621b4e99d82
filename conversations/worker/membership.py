"""The membership of a worker in its service's consumer group, and the waits between its attempts to join."""

from __future__ import annotations

from enum import Enum

from conversations.backoff import Backoff

OUTAGE = (0.25, 8.0)
"""The first and the longest wait, in seconds, between two attempts while Kafka cannot be reached."""


class Phase(Enum):
    """The current work of the polling thread. It decides whether partitions that Kafka takes away get a last commit."""

    STEPPING = "stepping"
    COMMITTING = "committing"
    """A step is being committed: no other commit may begin meanwhile."""
    GIVING_BACK = "giving back"
    """The last commit of revoked partitions is under way, in a callback of ``poll``. Meanwhile neither ``poll`` nor another last commit may run."""
    FAILED = "failed"
    """The worker failed in the middle of a step: its state in memory may be half changed, and is not committed."""


class Membership:
    """Tells whether a worker is a member of its group, and when it tries again to join."""

    def __init__(self) -> None:
        self.joined = False
        self.was_joined = False
        """True once the worker has been a member. Then the address of Kafka is known to be right."""
        self._outage = Backoff(*OUTAGE)

    def enter(self) -> None:
        """Note that the worker is a member."""
        self._outage.over()
        self.joined = self.was_joined = True

    def leave(self) -> None:
        """Note that the worker is not a member any more."""
        self.joined = False

    def fail(self) -> float:
        """Note that joining failed; return the seconds until the next attempt."""
        return self._outage.again()
