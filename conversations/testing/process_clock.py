"""The clock of one simulated process, which may be wrong and may jump."""

from __future__ import annotations

from datetime import timedelta

from conversations.memory.clock import ManualClock
from conversations.testing.faults import Chance

FARTHEST = 2 * 86_400_000_000
"""Maximum number of microseconds by which a process's clock is ahead of or behind the true time."""


class ProcessClock:
    """The clock of one machine, which may differ from the true time.

    Args:
        world: the clock with the true time.
        chance: decides when ``jump`` sets the clock to a wrong time.
    """

    def __init__(self, world: ManualClock, chance: Chance) -> None:
        self._world = world
        self._chance = chance
        self._off = 0
        self._zero = world.now()

    def now(self) -> int:
        """Return microseconds since the epoch, as this clock shows them."""
        return self._world.now() + self._off

    def steady(self) -> int:
        """Return microseconds since this clock was made."""
        return self._world.now() - self._zero

    def set_off(self, by: timedelta) -> None:
        """Set the clock ahead of the true time by this much. A negative value sets it behind."""
        self._off = by // timedelta(microseconds=1)

    def jump(self) -> None:
        """Set the clock to another time, by chance."""
        if self._chance.happens(self._chance.faults.skew):
            self._off = self._chance.random.randrange(-FARTHEST, FARTHEST)
