"""Deadlines of endpoints: near ones exact, later ones by intervals and packed in bytes."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

NEAR = 2
"""Intervals ahead for which deadlines are kept in exact order."""
ENTRY = 25
"""Bytes of one deadline that is far: eight of time, 17 of identity."""
MOVED = 20_000
"""Far deadlines that become near at most at a time."""
WORTH_TRIMMING = 100_000
TRIMMED = 2_000
"""Far deadlines looked at by one ``trim``."""


class Deadlines:
    """Deadlines of one partition's endpoints; one too early, or of an endpoint that is gone, does no harm.

    Nearly all are ends of lifetimes hours ahead: an object for each of a million open dialogs would take most of a
    worker's memory.

    Args:
        step: microseconds of an interval.
    """

    def __init__(self, step: int) -> None:
        self._step = step
        self._near: list[tuple[int, bytes]] = []
        self._far: dict[int, bytearray] = {}
        self._intervals: list[int] = []
        """The keys of ``_far``, as a heap."""
        self._horizon = 0
        self._gone = 0
        self._to_trim: list[tuple[int, int]] = []
        """Intervals, and how many bytes of each are not looked at yet."""

    def __len__(self) -> int:
        return len(self._near) + sum(map(len, self._far.values())) // ENTRY

    def add(self, at: int, own: bytes) -> None:
        """Look at the endpoint ``own`` (17 bytes) once the time ``at`` (microseconds) has come."""
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

    def next(self) -> int | None:
        """When something may be due, None when nothing ever is."""
        near = self._near[0][0] if self._near else None
        far = self._intervals[0] * self._step if self._intervals else None
        if near is None or far is None:
            return far if near is None else near
        return min(near, far)

    def take(self, now: int, limit: int) -> Iterator[bytes]:
        """Take out at most ``limit`` endpoints whose time has come; some may have moved it since."""
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
                del self._far[heapq.heappop(self._intervals)]

    def forget_one(self) -> None:
        """Take note that an endpoint is gone whose deadline is still here."""
        self._gone += 1

    def trim(self, alive: Callable[[bytes], bool]) -> None:
        """When most deadlines belong to endpoints that are gone, drop some of those; call it now and then."""
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
        if left > len(looked_at):
            self._to_trim.append((interval, left - len(looked_at)))
