"""One setting: its unit, its default, its minimum and its meaning. ``config`` has all settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any


class Unit(StrEnum):
    """The unit of a setting."""

    TIME = "time"
    """A ``timedelta``. In ``Periods`` it is a whole number of microseconds, like all times of the protocol."""
    BYTES = "bytes"
    NUMBER = "number"
    SHARE = "share"
    """A number from 0 to 1."""
    SWITCH = "switch"
    """A group of settings, or None for off."""
    WORD = "word"
    """One of some words."""
    PLACE = "place"
    """Where secrets are: ``file:PATH``, ``environment:NAME`` or ``class:MODULE:NAME``."""


def setting(default: Any, unit: Unit, meaning: str, *, least: int = 1, end: str = "", never: bool = False, words: Sequence[str] = ()) -> Any:  # fmt: skip
    """Declare a setting.

    ``least`` is the minimum, 0 or 1. ``end`` tells what happens when a time is over. ``never`` is True if the value may be None. ``words`` are
    the valid values of a word.
    """
    told = {"unit": unit, "meaning": meaning, "least": least, "end": end, "never": never, "words": words}
    return field(default=default, metadata=told)


def period(default: int, meaning: str, end: str) -> Any:
    """Declare a period, in microseconds. ``end`` tells what happens when the period is over."""
    return setting(default, Unit.TIME, meaning, end=end)
