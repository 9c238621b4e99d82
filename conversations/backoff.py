"""How long to wait before the next attempt."""

from __future__ import annotations


class Backoff:
    """Seconds to wait that double from ``first`` to ``last`` while one attempt after the other fails."""

    def __init__(self, first: float, last: float) -> None:
        self._first, self._last = first, last
        self._next = first

    def again(self) -> float:
        """Return the seconds to wait before the next attempt."""
        wait, self._next = self._next, min(2 * self._next, self._last)
        return wait

    def over(self) -> None:
        """An attempt went well: the next failure is a first one."""
        self._next = self._first
