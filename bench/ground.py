"""What a part is measured on: a broker of its own, the plan, and the screen."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from bench import quiet
from bench.plan import Plan
from bench.screen import Screen


@dataclass
class Ground:
    """Handed to each part."""

    bootstrap: str
    plan: Plan
    screen: Screen
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def patience(self) -> float:
        """Seconds to wait for the machine to be quiet; none when the figures do not matter."""
        return quiet.PATIENCE if self.plan.shrink == 1 else 0.0

    def space(self) -> str:
        """First part of the names of one run's topics, never the same twice."""
        return f"bench-{next(self._numbers)}"
