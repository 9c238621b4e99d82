"""The brake of a worker: on, it handles one message at a time, of those that wait, until one succeeds."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING

from conversations.brake import Brake, Failures
from conversations.protocol.endpoint import NEVER
from conversations.protocol.rows import QUEUE_ON

if TYPE_CHECKING:
    from conversations.worker.active import Item, Park
    from conversations.worker.partition import Partition  # they are made by what asks here

log = logging.getLogger("conversations.worker")


class Braking:
    """Whether a worker's brake is on, and what is being tried meanwhile."""

    def __init__(self, brake: Brake | None) -> None:
        self.on = False
        self.next_probe = NEVER
        """When the next message is tried, while it is on."""
        self._failures = Failures(brake) if brake is not None else None
        self._pause = (brake.probe if brake is not None else timedelta(0)) // timedelta(microseconds=1)
        self._probe: Park | None = None
        self._released = False
        """It went off: what waits for it is to go on."""
        self._turn = 0
        self.finished = 0
        """Handlers that succeeded since the start."""

    def failed(self, dialog: bytes, now: int) -> int:
        """Count a failure; return how many dialogs had failed if that puts the brake on."""
        if self._failures is None or self.on or not self._failures.note(dialog, now, self.finished):
            return 0
        count = len(self._failures)
        self._failures.clear()
        self.on, self.next_probe, self._probe = True, now + self._pause, None
        return count

    def tries(self, item: Item) -> bool:
        """Say whether an item is the one that may be handled now."""
        return item.park is not None and item.park is self._probe

    def over(self) -> None:
        """What was tried succeeded."""
        self.on, self.next_probe, self._released = False, NEVER, True

    def wake(self, partitions: Iterable[Partition], now: int) -> None:
        """Let the next one be tried when it is time, or all once it is over."""
        if self._released:
            self._released, self._probe = False, None
            for partition in partitions:
                if not partition.row.off:
                    partition.release(now)
        elif self.on and now >= self.next_probe:
            self.next_probe = now + self._pause
            if not self._is_tried(partitions, now):
                self._try_next([it for it in partitions if not it.row.off], now)

    def _is_tried(self, partitions: Iterable[Partition], now: int) -> bool:
        """Say whether it has not had its turn yet: what waits for anything but that has."""
        probe = self._probe
        if probe is None or not (probe.taken or probe.row.due <= now):
            return False
        return any(probe in parks.values() for it in partitions for parks in (it.parks, it.retries))

    def _try_next(self, partitions: list[Partition], now: int) -> None:
        """Take another partition each time, and of it what has waited longest since it was tried."""
        self._probe = None
        for step in range(len(partitions)):
            partition = partitions[(self._turn + step) % len(partitions)]
            both = partition.parks, partition.retries
            for parks in both if self._turn % 2 else reversed(both):
                name = next((name for name, park in parks.items() if park.row.due == QUEUE_ON), None)
                if name is not None:
                    park = parks[name] = parks.pop(name)
                    park.row.due = now
                    partition.deadlines.add(now, name[:17])
                    self._probe, self._turn = park, self._turn + step + 1
                    return
