"""Waiting times before a dead process is started again."""

from __future__ import annotations

from conversations.backoff import Backoff

FIRST = 0.2
LAST = 10.0
HEALTHY = 60.0
"""Seconds. If a process that has run for at least this time ends, the next waiting time is ``FIRST``."""


class Restarts:
    """Waiting times of one worker. As long as each of its processes ends within a minute, they double from 0.2 s to 10 s."""

    def __init__(self) -> None:
        self._backoff = Backoff(FIRST, LAST)

    def after(self, lived: float) -> float:
        """Return the seconds to wait after the death of a process that lived for ``lived`` seconds."""
        if lived >= HEALTHY:
            self._backoff.over()
        return self._backoff.again()
