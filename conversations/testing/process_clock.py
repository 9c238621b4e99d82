"""The clock of one simulated process, which may be wrong and may jump."""

from __future__ import annotations

from datetime import timedelta

from conversations.memory.clock import ManualClock
from conversations.testing.faults import Chance

FARTHEST = 2 * 86_400_000_000
"""Microseconds a process's clock is off at most."""


class ProcessClock:
    """A machine's clock beside the world's.

    Args:
        world: the true time.
        chance: by which it is set wrong, at the start and later.
    """

    def __init__(self, world: ManualClock, chance: Chance) -> None:
        self._world = world
        self._chance = chance
        self._off = 0
        self._zero = world.now()

    def now(self) -> int:
        """Microseconds since the epoch, as the process believes."""
        return self._world.now() + self._off

    def steady(self) -> int:
        """Microseconds since it was made."""
        return self._world.now() - self._zero

    def set_off(self, by: timedelta) -> None:
        """From now on it is ahead of the true time by this much, or behind."""
        self._off = by // timedelta(microseconds=1)

    def jump(self) -> None:
        """It is set to another time, by chance."""
        if self._chance.happens(self._chance.faults.skew):
            self._off = self._chance.random.randrange(-FARTHEST, FARTHEST)
