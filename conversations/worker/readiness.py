"""Whether a worker works: its partitions are open, and its Kafka answers."""

from __future__ import annotations

import threading
import time

from conversations.periods import SECOND
from conversations.ports import Unanswered


class Readiness:
    """Kept by the polling thread, and asked by any.

    Args:
        patience: microseconds for which Kafka may be silent.
    """

    def __init__(self, patience: int) -> None:
        self.ready = threading.Event()
        """Set while partitions are open, none is being restored, and Kafka answers."""
        self._patience = patience / SECOND
        self._unanswered: Unanswered | None = None

    def hear(self, unanswered: Unanswered | None) -> None:
        """What nobody answers just now; None: somebody did."""
        before = self._unanswered
        if unanswered is not None and before is not None:
            unanswered = unanswered._replace(since=min(before.since, unanswered.since))
        self._unanswered = unanswered

    def look(self, *, works: bool) -> None:
        """Bring ``ready`` up to date: ``works`` says whether partitions are open and none is being restored."""
        works = works and not self.is_unreachable()
        if works != self.ready.is_set():
            (self.ready.set if works else self.ready.clear)()

    def unanswered(self) -> tuple[float, str] | None:
        """For how many seconds nobody has answered, and what is tried; None when nothing is known to be unanswered."""
        found = self._unanswered
        return None if found is None else (time.monotonic() - found.since, found.trying)

    def is_unreachable(self) -> bool:
        """Nobody has answered for longer than the patience."""
        found = self.unanswered()
        return found is not None and found[0] > self._patience
