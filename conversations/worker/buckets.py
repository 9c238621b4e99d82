"""Keys to be forgotten, by the minute of log time: one byte string per minute, not one object per key."""

from __future__ import annotations

from collections.abc import Iterator

MINUTE = 60_000_000
KEY_SIZE = 18
"""All keys have this length: one letter and an identity, or one letter, a digest and a zero."""


class Buckets:
    """Forgetting times of rows, rounded up to whole minutes."""

    def __init__(self) -> None:
        self._minutes: dict[int, bytearray] = {}

    def __len__(self) -> int:
        return sum(len(keys) for keys in self._minutes.values()) // KEY_SIZE

    def add(self, at: int, key: bytes) -> None:
        """Forget ``key`` once log time has passed ``at`` (microseconds).

        Raises:
            ValueError: the key has another length than all others.
        """
        if len(key) != KEY_SIZE:
            raise ValueError(f"a key of {len(key)} bytes; all have {KEY_SIZE}")
        self._minutes.setdefault(at // MINUTE + 1, bytearray()).extend(key)

    def take(self, log_time: int, limit: int) -> Iterator[bytes]:
        """Take out at most ``limit`` keys whose time has passed."""
        for minute in sorted(m for m in self._minutes if m * MINUTE <= log_time):
            keys = self._minutes[minute]
            while keys and limit > 0:
                yield bytes(keys[-KEY_SIZE:])
                del keys[-KEY_SIZE:]
                limit -= 1
            if not keys:
                del self._minutes[minute]
            if limit <= 0:
                return
