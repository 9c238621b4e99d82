"""The product's settings by name: ``GROUP.FIELD`` of ``conversations.config``."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Sequence
from typing import Any, NamedTuple

from conversations.config import Brake, Limits, Periods, WorkerSettings
from conversations.setting import Unit

GROUPS: dict[str, type[Any]] = {"worker": WorkerSettings, "brake": Brake, "limits": Limits, "periods": Periods}
"""The class of each group, by the first part of the names of its settings."""
NEAR = 0.85
"""Similarity of two names. An unknown name that is at least this similar to a setting of the product is a misspelling of that setting.

No setting of librdkafka is taken for a misspelling, because all of them are less similar to every setting of the product.
"""


class Setting(NamedTuple):
    """A setting of the product."""

    group: str
    field: str
    default: Any
    unit: Unit
    meaning: str
    least: int
    """The smallest valid value, in the unit of the setting; for a time, in microseconds."""
    end: str
    """The effect when the period is over; empty for a setting that is not a period."""
    never: bool
    """True if the value may be None, which is written ``never``."""
    words: Sequence[str]
    """The valid values of a word."""

    @property
    def name(self) -> str:
        """Name of the setting in files and options."""
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
"""All settings of the product by name, in the order of their declaration."""


def nearest(name: str) -> str | None:
    """Return the setting of the product of which ``name`` is a misspelling; None if ``name`` may be a setting of librdkafka."""
    alone = [it.name for it in SETTINGS.values() if it.field == name]
    if alone:
        return alone[0]
    ours = name.partition(".")[0] in GROUPS
    return next(iter(difflib.get_close_matches(name, SETTINGS, 1, 0.0 if ours else NEAR)), None)
