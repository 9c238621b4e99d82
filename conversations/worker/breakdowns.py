"""Which records our own code failed with, and which partitions are to be built anew for it."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from conversations.protocol.sequencing import NONE

log = logging.getLogger("conversations.worker")

MOST = 1_000
"""Records that are condemned and have not had their turn."""


@dataclass(slots=True)
class Condemned:
    """A record that our code failed with."""

    failure: Exception
    times: int = 1
    """How often; a second time also when it was only given up on."""

    def again(self, failure: Exception) -> None:
        """Our code failed with it once more."""
        self.failure = failure
        self.times += 1


class Breakdowns:
    """The broken partitions of one worker, and the records that broke them. Guarded by the owner's lock.

    Args:
        service: its name, for the log.
        batch: records of one step at most.
    """

    def __init__(self, service: str, batch: int) -> None:
        self._service = service
        self._steps = 2 * batch + 16
        """Steps of one item each in which a partition is sure to come to the record that is to blame."""
        self.condemned: dict[tuple[int, str], Condemned] = {}
        """By partition, and the name of the item."""
        self.broken: dict[int, Exception] = {}
        """Partitions of which nothing in memory is to be committed."""
        self.careful: dict[int, int] = {}
        """Partitions that go on one item at a time, and for how many steps."""
        self.failure: BaseException | None = None
        """What no record is to blame for: the polling thread raises it."""
        self.failed_in = NONE
        """The partition whose lane it was raised in, if it was in one."""

    def fail(self, failure: BaseException, partition: int | None = None) -> None:
        """Note a failure that the polling thread must raise, and the partition whose lane raised it, if a lane did."""
        self.failure = failure
        if partition is not None:
            self.failed_in = partition

    def forgive(self) -> None:
        """What failed is mended."""
        self.failure = None

    def blame(self, number: int, record: str, failure: Exception) -> None:
        """A step of a partition failed while a record was at work; "": nobody knows which."""
        what = record or "a step"
        log.error("partition %d of %s is built anew: %s failed", number, self._service, what, exc_info=failure)
        self.broken[number] = failure
        if not record:
            self.careful[number] = self._steps
            return
        found = self.condemned.get((number, record))
        if found is not None:
            found.again(failure)
        elif len(self.condemned) < MOST:
            self.condemned[number, record] = Condemned(failure)

    def blame_collected(self, number: int, record: str, failure: Exception) -> None:
        """Closing a step failed: the record at work is to blame when it was the only one."""
        self.blame(number, record if number in self.careful else "", failure)

    def collected(self, number: int) -> None:
        """A step of a partition was closed."""
        left = self.careful.get(number)
        if left is not None:
            self.careful[number] = left - 1
            if left <= 1:
                del self.careful[number]

    def take_broken(self) -> list[int]:
        """Return the partitions that are to be built anew."""
        broken, self.broken = self.broken, {}
        return list(broken)

    def forget(self, numbers: list[int]) -> None:
        """These partitions belong to somebody else."""
        for number in numbers:
            self.broken.pop(number, None)
            self.careful.pop(number, None)
        self.condemned = {key: found for key, found in self.condemned.items() if key[0] not in numbers}
