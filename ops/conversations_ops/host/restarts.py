"""How long to wait before a process that died is started again."""

from __future__ import annotations

from conversations.backoff import Backoff

FIRST = 0.2
LAST = 10.0
HEALTHY = 60.0
"""Seconds after which a process counts as healthy: its next death is a first one."""


class Restarts:
    """Waiting times that double from 0.2 s to 10 s while a process keeps dying young."""

    def __init__(self) -> None:
        self._backoff = Backoff(FIRST, LAST)

    def after(self, lived: float) -> float:
        """Return the seconds to wait now that a process has died which lived ``lived`` seconds."""
        if lived >= HEALTHY:
            self._backoff.over()
        return self._backoff.again()
