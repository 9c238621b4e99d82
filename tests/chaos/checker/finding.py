"""What a checker has found: the same for all checkers that compare what was said with what was handled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

It = TypeVar("It")
"""A violation of a checker."""
SHOWN = 50
"""Violations that are listed of each kind."""


@dataclass
class Finding(Generic[It]):
    """What is wrong, by heading, and the figures."""

    wrong: dict[str, list[It]] = field(default_factory=dict)
    figures: dict[str, int] = field(default_factory=dict)

    @property
    def clean(self) -> bool:
        """True if nothing is wrong."""
        return not any(self.wrong.values())

    @property
    def line(self) -> str:
        """The figures, and at the end the counts of what is wrong."""
        facts = [f"{name} {count:,}" for name, count in self.figures.items()]
        return " · ".join(facts) + " · " + ", ".join(f"{name} {len(found):,}" for name, found in self.wrong.items())

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        listed = {name: found[:SHOWN] for name, found in self.wrong.items()}
        return {"clean": self.clean, "line": self.line, "figures": self.figures, "wrong": listed}
