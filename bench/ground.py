"""The things that a part gets for its measurement: its own broker, the plan, and the screen."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from bench import quiet
from bench.plan import Plan
from bench.screen import Screen


@dataclass
class Ground:
    """The broker, the plan and the screen of a part."""

    bootstrap: str
    plan: Plan
    screen: Screen
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def patience(self) -> float:
        """Maximum number of seconds to wait for a quiet machine. It is 0 if the sizes are reduced, because then the figures do not matter."""
        return quiet.PATIENCE if self.plan.shrink == 1 else 0.0

    def space(self) -> str:
        """Return the first part of the topic names of a run. It is different in each run."""
        return f"bench-{next(self._numbers)}"
