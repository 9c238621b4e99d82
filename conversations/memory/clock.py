"""Clocks: the clock of the system, and a clock that is moved by hand."""

from __future__ import annotations

import time


class SystemClock:
    """The machine's wall clock."""

    def now(self) -> int:
        """Return the microseconds since the epoch, UTC."""
        return time.time_ns() // 1_000

    def steady(self) -> int:
        """Return the microseconds since some fixed moment. This clock never jumps."""
        return time.monotonic_ns() // 1_000


class ManualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now: int) -> None:
        self._now = now

    def now(self) -> int:
        """Return the microseconds since the epoch, UTC."""
        return self._now

    def steady(self) -> int:
        """Return the same time as ``now``."""
        return self._now

    def advance(self, by: int) -> None:
        """Advance the clock by ``by`` microseconds.

        Raises:
            ValueError: ``by`` is negative.
        """
        if by < 0:
            raise ValueError("time does not go back")
        self._now += by
