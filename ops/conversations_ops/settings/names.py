"""The product's settings by name: ``GROUP.FIELD`` of ``conversations.config``."""

from __future__ import annotations

import dataclasses
import difflib
from typing import Any, NamedTuple

from conversations.config import Brake, Limits, Periods, Unit, WorkerSettings

GROUPS: dict[str, type[Any]] = {"worker": WorkerSettings, "brake": Brake, "limits": Limits, "periods": Periods}
"""The groups by the first part of their settings' names."""
NEAR = 0.85
"""How like a name of ours an unknown name must be to be taken for a misspelling; librdkafka's names are less like them."""


class Setting(NamedTuple):
    """A setting of the product."""

    group: str
    field: str
    default: Any
    unit: Unit
    meaning: str
    least: int
    """Its least value, in its unit; of a time, in microseconds."""
    end: str
    """The effect when its time is over; empty for a setting that is no period."""
    never: bool
    """Whether it may be None, written ``never``."""

    @property
    def name(self) -> str:
        """What files and options call it."""
        return f"{self.group}.{self.field}"


def _declared() -> dict[str, Setting]:
    found = [
        Setting(group, it.name, it.default, **it.metadata)
        for group, settings in GROUPS.items()
        for it in dataclasses.fields(settings)
        if "unit" in it.metadata
    ]
    return {it.name: it for it in found}


SETTINGS = _declared()
"""All of them, in the order in which they are declared."""


def nearest(name: str) -> str | None:
    """Return the setting of ours that ``name`` was meant to be, None when it may be a setting of librdkafka."""
    alone = [it.name for it in SETTINGS.values() if it.field == name]
    if alone:
        return alone[0]
    ours = name.partition(".")[0] in GROUPS
    return next(iter(difflib.get_close_matches(name, SETTINGS, 1, 0.0 if ours else NEAR)), None)
