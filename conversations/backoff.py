"""Waits between attempts. Each wait is twice as long as the wait before."""

from __future__ import annotations


class Backoff:
    """A wait in seconds that doubles after each failed attempt, from ``first`` up to ``last``."""

    def __init__(self, first: float, last: float) -> None:
        self._first, self._last = first, last
        self._next = first

    def again(self) -> float:
        """Return the seconds to wait before the next attempt. The next result is twice this number, but at most ``last``."""
        wait, self._next = self._next, min(2 * self._next, self._last)
        return wait

    def over(self) -> None:
        """Start again with ``first``, because an attempt succeeded."""
        self._next = self._first
