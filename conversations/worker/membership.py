"""Whether a worker is a member of its service's group, and how long it waits before it tries to become one again."""

from __future__ import annotations

from enum import Enum

from conversations.backoff import Backoff

OUTAGE = (0.25, 8.0)
"""Seconds between two attempts while Kafka cannot be reached: the first wait, and the longest."""


class Phase(Enum):
    """The work of the polling thread at the moment when Kafka tells it of its partitions."""

    STEPPING = "stepping"
    COMMITTING = "committing"
    """A step is half done: nothing may be committed beside it."""
    GIVING_BACK = "giving back"
    """Inside a callback of poll: Kafka cannot be polled, and partitions cannot be given back again."""
    FAILED = "failed"
    """In the middle of a step: the state in memory may be half done, and is not committed."""


class Membership:
    """A worker enters its group, and leaves it when the outcome of a commit is not known."""

    def __init__(self) -> None:
        self.joined = False
        self.was_joined = False
        """It was a member before: Kafka is known to be there."""
        self._outage = Backoff(*OUTAGE)

    def enter(self) -> None:
        """The worker is a member."""
        self._outage.over()
        self.joined = self.was_joined = True

    def leave(self) -> None:
        """The worker is no member any more."""
        self.joined = False

    def fail(self) -> float:
        """Joining failed; return the seconds until it is tried again."""
        return self._outage.again()
