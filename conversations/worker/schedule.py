"""The schedule of a partition: when its endpoints are to be looked at, and which of its rows are forgotten when.

Two clocks are at work. **Deadlines** (timers, lifetimes, acknowledgements, further attempts) go by the worker's time. A deadline
that comes too early does no harm: nothing is due, and the next one is entered. So an entry is never moved, only
added: an endpoint remembers the earliest entry that is surely there, and a new one is made only for an earlier deadline.

**Forgetting** goes by log time alone, which moves only as records of the queue are read: a row that makes a repetition harmless
must outlive every repetition that is still in the log. On a queue nobody writes to log time stands still. So a partition that
has something to forget writes itself a tick now and then. A tick counts only once everything in the queue before it was read.
"""

from __future__ import annotations

from collections.abc import Iterator

from conversations.worker.active import Active
from conversations.worker.buckets import Buckets
from conversations.worker.deadlines import Deadlines


class Schedule:
    """Deadlines of a partition's endpoints, and rows to be forgotten once log time has passed.

    Args:
        step: microseconds of an interval.
    """

    __slots__ = ("_asked", "_heard", "commands", "deadlines", "letters", "tombstones")

    def __init__(self, step: int) -> None:
        self.deadlines = Deadlines(step)
        self.tombstones, self.commands, self.letters = Buckets(step), Buckets(step), Buckets(step)
        """Rows to be forgotten: of closed dialogs, of commands that took effect, of open letters."""
        self._heard = 0
        """Log time of a tick that has come and was not looked at yet, or 0."""
        self._asked = 0
        """When time was last asked to pass."""

    # -- deadlines ----------------------------------------------------------------------------------------

    def enter(self, active: Active, deadline: int) -> None:
        """Have an endpoint looked at by this deadline, which is earlier than all that are entered for it."""
        active.enter(deadline)
        self.deadlines.add(deadline, active.identity)

    def next(self) -> int | None:
        """When something may be due, None when nothing ever is."""
        return self.deadlines.next()

    def take(self, now: int, limit: int) -> Iterator[bytes]:
        """Take out at most ``limit`` endpoints whose time has come."""
        return self.deadlines.take(now, limit)

    # -- ticks --------------------------------------------------------------------------------------------

    def hear_tick(self, log_time: int) -> None:
        """A tick has come: only the polling thread can say whether all of the queue before it was read."""
        self._heard = max(self._heard, log_time)

    def take_tick(self) -> int:
        """Log time of the tick that has come since this was last asked, or 0."""
        heard, self._heard = self._heard, 0
        return heard

    def wants_tick(self, now: int, queue_time: int, idle: int) -> bool:
        """Say whether to ask for a tick: the queue was idle for so long, and closed dialogs wait to be forgotten."""
        self._asked = min(self._asked, now)
        last = max(queue_time, self._asked)
        if not len(self.tombstones) or (last and now - last < idle):
            return False
        self._asked = now
        return last != 0  # else nobody ever wrote to this queue: its idleness begins
