"""The queues of another cluster that refuse records. A forwarder leaves their records out for a while, so that the others are carried."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

AGAIN_AFTER = 10.0
"""Seconds after which records are appended to a queue again that has refused some. Each attempt that fails holds up the others for about a second."""


class Refused(NamedTuple):
    """Why a queue has refused a record."""

    why: str
    size: int = 0
    """Bytes of the record, if it is too large; 0 if the queue takes no records at all."""


class RefusingQueues:
    """The queues that have refused records in the last seconds, and which records they would refuse again.

    A queue may refuse a batch of small records as too large. So the first refusal of this kind makes the queue *careful*: its records are appended one by one, and
    the next refusal tells the size of a record.
    """

    __slots__ = ("_careful", "_clock", "_limits", "_until")

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}
        """For each queue, the time until which the following is believed."""
        self._careful: set[str] = set()
        self._limits: dict[str, int] = {}
        """Bytes from which on a queue refuses a record."""

    def note(self, refused: Mapping[str, Refused]) -> None:
        """Note which queues have refused records."""
        for queue, found in refused.items():
            self._until[queue] = self._clock() + AGAIN_AFTER
            if found.size and queue not in self._careful:
                self._careful.add(queue)
            else:
                self._limits[queue] = min(found.size, self._limits.get(queue, found.size))

    def begin(self) -> None:
        """Forget what was noted too long ago."""
        now = self._clock()
        for queue in [queue for queue, until in self._until.items() if until <= now]:
            del self._until[queue]
            self._careful.discard(queue)
            self._limits.pop(queue, None)

    def forget(self) -> None:
        """Forget all that was noted."""
        self._until.clear()
        self._careful.clear()
        self._limits.clear()

    def takes(self, queue: str, size: int) -> bool:
        """Return True if a queue may take a record of this size."""
        limit = self._limits.get(queue)
        return limit is None or size < limit

    def is_careful(self, queue: str) -> bool:
        """Return True if the records of a queue must be appended one by one."""
        return queue in self._careful
