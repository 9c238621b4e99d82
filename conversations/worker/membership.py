"""The membership of a worker in its service's consumer group, and the waits between its attempts to join."""

from __future__ import annotations

from enum import Enum

from conversations.backoff import Backoff

OUTAGE = (0.25, 8.0)
"""The first and the longest wait, in seconds, between two attempts while Kafka cannot be reached."""


class Phase(Enum):
    """The current work of the polling thread. The phase decides whether partitions that Kafka takes away get a last commit."""

    STEPPING = "stepping"
    COMMITTING = "committing"
    """A step is being committed. No other commit may begin before this phase ends."""
    GIVING_BACK = "giving back"
    """Revoked partitions get their last commit, in a callback of the connection. In the callback, ``poll`` must not be called again.

    No other last commit may begin before this phase ends.
    """
    FAILED = "failed"
    """The worker failed in the middle of a step. The state in memory may be half changed, so it is not committed."""


class Membership:
    """The membership of a worker in its group, and the waits between attempts to join."""

    def __init__(self) -> None:
        self.joined = False
        self.was_joined = False
        """True if the worker is a member, or was a member before. Then the address of Kafka is known to be right."""
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
