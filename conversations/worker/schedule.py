"""The schedule of a partition: the deadlines of its endpoints, and the times at which its rows are forgotten.

Two clocks are used. **Deadlines** (timers, lifetimes, acknowledgements, further attempts) use the worker's time. If the time of
an entry comes before the deadline, nothing is due, and a new entry is made for the next deadline. So an entry is never moved. An
endpoint remembers the earliest entry that certainly exists, and gets a new entry only for an earlier deadline.

**Forgetting** uses only log time, because a row that makes repeated records harmless must stay until no repeated record is left in the
log. Log time moves only when records of the queue are read. On a queue that nobody writes to, log time stands still. So a partition
with tombstones writes a tick to its own commands from time to time. A tick takes effect only if everything in the queue was read.
"""

from __future__ import annotations

from collections.abc import Iterator

from conversations.worker.active import Active
from conversations.worker.buckets import Buckets
from conversations.worker.deadlines import Deadlines


class Schedule:
    """Deadlines of a partition's endpoints, and rows to be forgotten when their log time has passed.

    Args:
        step: length of an interval, in microseconds.
    """

    __slots__ = ("_asked", "_heard", "commands", "deadlines", "letters", "tombstones")

    def __init__(self, step: int) -> None:
        self.deadlines = Deadlines(step)
        self.tombstones, self.commands, self.letters = Buckets(step), Buckets(step), Buckets(step)
        """Rows to be forgotten: the rows of closed dialogs, of commands that took effect, and of open letters."""
        self._heard = 0
        """Log time of a tick that has arrived and has not taken effect yet, else 0."""
        self._asked = 0
        """Time at which the last tick was asked for."""

    # -- deadlines ----------------------------------------------------------------------------------------

    def enter(self, active: Active, deadline: int) -> None:
        """Enter a deadline of an endpoint. The deadline must be earlier than the other entries of the endpoint."""
        active.enter(deadline)
        self.deadlines.add(deadline, active.identity)

    def next(self) -> int | None:
        """Return the next time at which something may be due; None if there is no such time."""
        return self.deadlines.next()

    def take(self, now: int, limit: int) -> Iterator[bytes]:
        """Remove and yield at most ``limit`` endpoints whose deadline has passed."""
        return self.deadlines.take(now, limit)

    # -- ticks --------------------------------------------------------------------------------------------

    def hear_tick(self, log_time: int) -> None:
        """Keep the log time of a tick until the polling thread checks whether all of the queue was read."""
        self._heard = max(self._heard, log_time)

    def take_tick(self) -> int:
        """Return the log time of a tick that has arrived since the last call; 0 if no tick has arrived."""
        heard, self._heard = self._heard, 0
        return heard

    def wants_tick(self, now: int, queue_time: int, idle: int, *, more: bool = False) -> bool:
        """Return True if a tick must be written: the queue was idle for ``idle`` microseconds, and tombstones or ``more`` wait to be forgotten."""
        self._asked = min(self._asked, now)
        last = max(queue_time, self._asked)
        if not (more or len(self.tombstones)) or (last and now - last < idle):
            return False
        self._asked = now
        return last != 0  # 0: nobody has written to this queue; its idle time begins now
