"""Readiness: a worker is ready while its partitions are open and Kafka answers."""

from __future__ import annotations

import threading
import time

from conversations.durations import SECOND
from conversations.ports import Unanswered


class Readiness:
    """The readiness of a worker. The polling thread keeps it up to date, and any thread may read it.

    Args:
        patience: microseconds for which Kafka may leave a call unanswered.
    """

    def __init__(self, patience: int) -> None:
        self.ready = threading.Event()
        """Set while partitions are open, none is being restored, and Kafka answers."""
        self._patience = patience / SECOND
        self._unanswered: Unanswered | None = None
        self._call: Unanswered | None = None

    def hear(self, unanswered: Unanswered | None) -> None:
        """Note the call that Kafka does not answer now; None if all calls were answered."""
        before = self._unanswered
        if unanswered is not None and before is not None:
            unanswered = unanswered._replace(since=min(before.since, unanswered.since))
        self._unanswered = unanswered

    def begin(self, call: str) -> None:
        """Note the start of a call that blocks the polling thread until ``end``. After the patience, the call counts as unanswered."""
        self._call = Unanswered(time.monotonic(), call)

    def end(self) -> None:
        """Note that the call returned or failed."""
        self._call = None

    def look(self, *, works: bool) -> None:
        """Set or clear ``ready``. The argument ``works`` is True if partitions are open and none is being restored."""
        works = works and not self.is_unreachable()
        if works != self.ready.is_set():
            (self.ready.set if works else self.ready.clear)()

    def unanswered(self) -> tuple[float, str] | None:
        """Return the seconds without an answer, and the unanswered call; None if no unanswered call is known."""
        found, call, now = self._unanswered, self._call, time.monotonic()
        if call is not None and now - call.since > self._patience and (found is None or call.since < found.since):
            found = call
        return None if found is None else (now - found.since, found.trying)

    def is_unreachable(self) -> bool:
        """Return True if Kafka has not answered for longer than the patience."""
        found = self.unanswered()
        return found is not None and found[0] > self._patience
