"""Decides which worker processes stand still, so that the supervisor replaces them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

LOOK = 1.0
"""Seconds between two looks."""
ASLEEP = 10.0
"""Seconds between two looks after which the whole machine stood still, and with it every process."""


class Standstills:
    """Looks for processes that send no report, or finish no step although Kafka answers."""

    def __init__(self) -> None:
        self._patience = 0.0
        """Seconds for which a process may stand still."""
        self._looked = time.monotonic()
        self._trusts_from = 0.0
        """Time from which on reports count again."""

    def allow(self, patience: float) -> None:
        """Let processes stand still for so many seconds, if this is longer than before."""
        self._patience = max(self._patience, patience)

    @property
    def next_look(self) -> float:
        """Time of the next look."""
        return self._looked + LOOK

    def look(self) -> bool:
        """Return True if a look is due, and what processes have reported counts. After a sleep of the machine, they get the whole time again."""
        now = time.monotonic()
        if now < self.next_look:
            return False
        if now - self._looked > ASLEEP:
            self._trusts_from = now + self._patience
        self._looked = now
        return now >= self._trusts_from

    def why(self, silent: float, status: Mapping[str, Any]) -> str:
        """Return why a process is ended, "" if it does not stand still.

        Args:
            silent: seconds since its last report.
            status: its last report.
        """
        if status["stopping"]:
            return ""  # a process that stops has a time limit of its own
        if silent > self._patience:
            return f"no report for {silent:.0f} s: does a handler hold the interpreter lock?"
        kafka, idle = status.get("kafka"), status["idle_seconds"]
        answers = kafka is None or not kafka["unreachable"]
        return f"no step finished for {idle:.0f} s, although Kafka answers" if answers and idle > self._patience else ""
