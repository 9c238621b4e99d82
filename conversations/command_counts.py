"""Counts of the commands that the clients of a process append."""

from __future__ import annotations

from concurrent.futures import Future
from threading import Lock


class CommandCounts:
    """Counts of one client since it was made. Any thread may use them."""

    def __init__(self) -> None:
        self.appended = 0
        """Commands that Kafka has taken."""
        self.refused = 0
        """Commands that were not appended, or whose appending was not confirmed."""
        self._lock = Lock()

    def ended(self, future: Future[None]) -> None:
        """Count a command whose future has ended."""
        failed = future.cancelled() or future.exception() is not None
        with self._lock:
            self.appended += not failed
            self.refused += failed
