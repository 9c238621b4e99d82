"""Clocks: the system's, and one moved by hand."""

from __future__ import annotations

import time


class SystemClock:
    """The machine's wall clock."""

    def now(self) -> int:
        """Microseconds since the epoch, UTC."""
        return time.time_ns() // 1_000

    def steady(self) -> int:
        """Microseconds since the machine started."""
        return time.monotonic_ns() // 1_000


class ManualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now: int) -> None:
        self._now = now

    def now(self) -> int:
        """Microseconds since the epoch, UTC."""
        return self._now

    def steady(self) -> int:
        """The same."""
        return self._now

    def advance(self, by: int) -> None:
        """Move on by ``by`` microseconds.

        Raises:
            ValueError: ``by`` is negative; time does not go back.
        """
        if by < 0:
            raise ValueError("time does not go back")
        self._now += by
