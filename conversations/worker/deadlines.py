"""Deadlines of endpoints. Near deadlines are in exact order. Far deadlines are grouped by intervals and packed into bytes."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

NEAR = 2
"""Number of intervals. Deadlines within this many intervals from now are kept in exact order."""
ENTRY = 25
"""Bytes of one far deadline: eight for the time, 17 for the identity."""
FEW = 1_000
"""Bytes of far deadlines of one interval among which repeated ones are not looked for."""
MOVED = 20_000
"""Maximum number of far deadlines that become near in one call of ``take``."""
WORTH_TRIMMING = 100_000
"""Number of endpoints that must be gone before ``trim`` begins."""
TRIMMED = 2_000
"""Maximum number of far deadlines that one call of ``trim`` checks."""


class Deadlines:
    """Deadlines of one partition's endpoints. A deadline does no harm if it is too early, or if its endpoint is gone.

    Nearly all deadlines are ends of lifetimes, hours ahead. With a million open dialogs, one object for each deadline would take most of
    the worker's memory. So far deadlines are packed into bytes.

    An endpoint that leaves memory forgets which of its deadlines are here, and may add the end of its lifetime again each time that it comes back. So
    whenever the deadlines of an interval have doubled, the repeated ones are dropped.

    Args:
        step: length of an interval in microseconds.
    """

    def __init__(self, step: int) -> None:
        self._step = step
        self._near: list[tuple[int, bytes]] = []
        self._far: dict[int, bytearray] = {}
        self._intervals: list[int] = []
        """The keys of ``_far``, as a heap."""
        self._looked: dict[int, int] = {}
        """Bytes of an interval at which repeated deadlines are looked for next; ``FEW`` for the others."""
        self._horizon = 0
        self._gone = 0
        self._to_trim: list[tuple[int, int]] = []
        """Intervals, each with the number of its bytes that ``trim`` has not checked yet."""

    def __len__(self) -> int:
        return len(self._near) + sum(map(len, self._far.values())) // ENTRY

    def add(self, at: int, own: bytes) -> None:
        """Add a deadline of the endpoint ``own`` (17 bytes) at the time ``at`` (microseconds)."""
        if at < self._horizon:
            heapq.heappush(self._near, (at, own))
            return
        interval = at // self._step
        entries = self._far.get(interval)
        if entries is None:
            entries = self._far[interval] = bytearray()
            heapq.heappush(self._intervals, interval)
        entries += at.to_bytes(8, "big")
        entries += own
        if len(entries) >= FEW and len(entries) >= self._looked.get(interval, FEW):
            self._drop_repeated(interval, entries)

    def _drop_repeated(self, interval: int, entries: bytearray) -> None:
        found = bytes(entries)
        entries[:] = b"".join({found[at : at + ENTRY] for at in range(0, len(found), ENTRY)})
        self._looked[interval] = 2 * len(entries)

    def next(self) -> int | None:
        """Return the time at which a deadline may pass next; None if there is no deadline."""
        near = self._near[0][0] if self._near else None
        far = self._intervals[0] * self._step if self._intervals else None
        if near is None or far is None:
            return far if near is None else near
        return min(near, far)

    def take(self, now: int, limit: int) -> Iterator[bytes]:
        """Remove and yield at most ``limit`` endpoints with a passed deadline. An endpoint may have a later deadline by now."""
        self._approach(now)
        while limit > 0 and self._near and self._near[0][0] <= now:
            limit -= 1
            yield heapq.heappop(self._near)[1]

    def _approach(self, now: int) -> None:
        self._horizon = max(self._horizon, (now // self._step + NEAR) * self._step)
        budget = MOVED
        while self._intervals and self._intervals[0] * self._step < self._horizon and budget > 0:
            entries = self._far[self._intervals[0]]
            moved = entries[-budget * ENTRY :]
            del entries[-budget * ENTRY :]
            budget -= len(moved) // ENTRY
            for at in range(0, len(moved), ENTRY):
                near = int.from_bytes(moved[at : at + 8], "big"), bytes(moved[at + 8 : at + ENTRY])
                heapq.heappush(self._near, near)
            if not entries:
                interval = heapq.heappop(self._intervals)
                del self._far[interval]
                self._looked.pop(interval, None)

    def forget_one(self) -> None:
        """Note that an endpoint is gone while its deadline is still stored here."""
        self._gone += 1

    def trim(self, alive: Callable[[bytes], bool]) -> None:
        """Drop some deadlines of endpoints that are gone; call this in each step.

        The work begins only when at least half of all deadlines belong to endpoints that are gone.

        Args:
            alive: returns True for an endpoint that is not closed.
        """
        if not self._to_trim:
            if self._gone < WORTH_TRIMMING or self._gone * 2 < len(self):
                return
            self._gone = 0
            self._to_trim = [(interval, len(entries)) for interval, entries in self._far.items()]
        interval, left = self._to_trim.pop()
        entries = self._far.get(interval)
        if entries is None:
            return
        looked_at = entries[: min(left, TRIMMED * ENTRY)]
        del entries[: len(looked_at)]
        for at in range(0, len(looked_at), ENTRY):
            if alive(bytes(looked_at[at + 8 : at + ENTRY])):
                entries += looked_at[at : at + ENTRY]
        if left > len(looked_at) > 0:
            self._to_trim.append((interval, left - len(looked_at)))
