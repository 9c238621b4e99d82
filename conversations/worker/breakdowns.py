"""Steps that are thrown away: records with which our own code failed, refused publications, and partitions to rebuild from committed rows."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import NamedTuple

from conversations.errors import PublicationRefused
from conversations.protocol.sequencing import NONE

log = logging.getLogger("conversations.worker")

MOST = 1_000
"""Maximum number of condemned records, and of refused publications, that are remembered until their turn."""


@dataclass(slots=True)
class Condemned:
    """A record with which our own code failed."""

    failure: Exception
    times: int = 1
    """Number of failures. The second failure may have happened while the record was given up on."""

    def again(self, failure: Exception) -> None:
        """Count another failure with the record."""
        self.failure = failure
        self.times += 1


class Called(NamedTuple):
    """A call of a handler, by the same name in every attempt and in every process."""

    identity: bytes
    """Identity of the endpoint."""
    without: bytes
    """``rows.TIMER`` or ``rows.ERROR`` for a handler without a message, else empty."""
    number: int
    """Number of the envelope; ``NONE`` for a handler without a message."""


class Breakdowns:
    """The broken partitions of one worker, and the records that broke them. Guarded by ``Context.lock``.

    Args:
        service: name of the worker's service, for the log.
        batch: maximum number of records in one step.
    """

    def __init__(self, service: str, batch: int) -> None:
        self._service = service
        self._steps = 2 * batch + 16
        """A number of steps with one item each. After them, the partition has certainly reached the record that causes the failure."""
        self.condemned: dict[tuple[int, str], Condemned] = {}
        """Condemned records by partition and name of the item."""
        self.refused: dict[tuple[int, Called], PublicationRefused] = {}
        """Calls of handlers that published a record which its topic refuses, by partition. Such a call is given up on when it comes again."""
        self.broken: dict[int, Exception] = {}
        """Partitions to rebuild, each with its failure. Nothing of their state in memory may be committed."""
        self.careful: dict[int, int] = {}
        """Partitions that handle only one item per step, each with the number of such steps that are left."""
        self.failure: BaseException | None = None
        """A failure that no record causes; the polling thread raises it."""
        self.failed_in = NONE
        """Number of the partition whose lane raised ``failure``; ``NONE`` if no lane did."""

    @property
    def is_quiet(self) -> bool:
        """True if nothing has failed, and no record is being searched for or waited for."""
        return self.failure is None and not (self.broken or self.careful or self.condemned or self.refused)

    def fail(self, failure: BaseException, partition: int | None = None) -> None:
        """Note a failure that the polling thread must raise. If a lane raised the failure, note the lane's partition, too."""
        self.failure = failure
        if partition is not None:
            self.failed_in = partition

    def forgive(self) -> None:
        """Forget ``failure``: its partition is rebuilt or set aside instead."""
        self.failure = None

    def blame(self, number: int, record: str, failure: Exception) -> None:
        """Note that a step of a partition failed while ``record`` was being processed. ``record`` is "" if the record is not known."""
        what = record or "a step"
        log.error(
            "partition %d of %s is built anew: %s failed",
            number,
            self._service,
            what,
            exc_info=failure,
            extra={"service": self._service, "partition": number},
        )
        self.broken[number] = failure
        if not record:
            self.careful[number] = self._steps
            return
        found = self.condemned.get((number, record))
        if found is not None:
            found.again(failure)
        elif len(self.condemned) < MOST:
            self.condemned[number, record] = Condemned(failure)

    def refuse(self, number: int, called: Called, refusal: PublicationRefused) -> None:
        """Note that a topic refuses a record that a handler published. The step of its partition is thrown away."""
        if len(self.refused) >= MOST:  # the oldest one may be of a call that never comes again
            del self.refused[next(iter(self.refused))]
        self.refused[number, called] = refusal

    def blame_collected(self, number: int, record: str, failure: Exception) -> None:
        """Note that the closing of a step failed. ``record`` is blamed only if the step handled a single item."""
        self.blame(number, record if number in self.careful else "", failure)

    def collected(self, number: int) -> None:
        """Count a closed step, if its partition handles only one item per step."""
        left = self.careful.get(number)
        if left is not None:
            self.careful[number] = left - 1
            if left <= 1:
                del self.careful[number]

    def take_broken(self) -> list[int]:
        """Return the partitions to rebuild, and forget them."""
        broken, self.broken = self.broken, {}
        return list(broken)

    def forget(self, numbers: list[int]) -> None:
        """Forget partitions that belong to another worker now."""
        for number in numbers:
            self.broken.pop(number, None)
            self.careful.pop(number, None)
        self.condemned = {key: found for key, found in self.condemned.items() if key[0] not in numbers}
        self.refused = {key: found for key, found in self.refused.items() if key[0] not in numbers}
