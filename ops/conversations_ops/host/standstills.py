"""Decides which worker processes stand still, so that the supervisor replaces them."""

from __future__ import annotations

import math
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
        self._patience: dict[str, float] = {}
        """By the name of a service, the seconds for which its processes may stand still."""
        self._looked = time.monotonic()
        self._woke = -math.inf
        """Time at which the machine woke for the last time."""

    def allow(self, service: str, patience: float) -> None:
        """Let the processes of a service stand still for so many seconds."""
        self._patience[service] = patience

    @property
    def next_look(self) -> float:
        """Time of the next look."""
        return self._looked + LOOK

    def look(self) -> bool:
        """Return True if a look is due."""
        now = time.monotonic()
        if now < self.next_look:
            return False
        if now - self._looked > ASLEEP:
            self._woke = now
        self._looked = now
        return True

    def why(self, service: str, silent: float, status: Mapping[str, Any]) -> str:
        """Return why a process is ended, "" if it does not stand still. After a sleep of the machine, it gets the whole time again.

        Args:
            service: the service of the process.
            silent: seconds since its last report.
            status: its last report.
        """
        patience = self._patience[service]
        if status["stopping"] or self._looked < self._woke + patience:
            return ""  # a process that stops has a time limit of its own
        if silent > patience:
            return f"no report for {silent:.0f} s: does a handler hold the interpreter lock?"
        kafka, idle = status.get("kafka"), status["idle_seconds"]
        answers = kafka is None or not kafka["unreachable"]
        return f"no step finished for {idle:.0f} s, although Kafka answers" if answers and idle > patience else ""
