"""Keys of rows to delete, grouped by intervals of log time. A byte string per interval takes less memory than an object per key."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

KEY_SIZE = 18
"""Length of every key: one character and 17 bytes. The 17 bytes are an identity, or a digest and a zero, or the place of an open letter."""


class Buckets:
    """Keys of rows to delete, by the log time of their deletion, rounded up to whole intervals of ``step`` microseconds."""

    def __init__(self, step: int) -> None:
        self._step = step
        self._intervals: dict[int, bytearray] = {}
        self._order: list[int] = []
        """The intervals as a heap. The first interval is the earliest. If it has not passed, no interval has passed."""

    def __len__(self) -> int:
        return sum(len(keys) for keys in self._intervals.values()) // KEY_SIZE

    def add(self, at: int, key: bytes) -> None:
        """Add a key that must be deleted when log time has passed ``at`` (microseconds).

        Raises:
            ValueError: the key does not have ``KEY_SIZE`` bytes.
        """
        if len(key) != KEY_SIZE:
            raise ValueError(f"a key of {len(key)} bytes; all have {KEY_SIZE}")
        interval = at // self._step + 1
        keys = self._intervals.get(interval)
        if keys is None:
            keys = self._intervals[interval] = bytearray()
            heapq.heappush(self._order, interval)
        keys += key

    def take(self, log_time: int, limit: int) -> Iterator[bytes]:
        """Remove and yield at most ``limit`` keys whose time has passed."""
        while limit > 0 and self._order and self._order[0] * self._step <= log_time:
            keys = self._intervals[self._order[0]]
            while keys and limit > 0:
                key = bytes(keys[-KEY_SIZE:])
                del keys[-KEY_SIZE:]
                limit -= 1
                yield key
            if not keys:
                del self._intervals[heapq.heappop(self._order)]
