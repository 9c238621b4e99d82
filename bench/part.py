"""A part of the benchmark, and the list of all parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from bench.ground import Ground

Found = dict[str, Any]
"""What a part measured, as it is kept in JSON. ``failures`` lists what went wrong. Only figures without failures may be published."""


@dataclass(frozen=True)
class Sheet:
    """A table for people, with notes below it."""

    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Part:
    """Something that can be measured by itself."""

    name: str
    title: str
    minutes: float
    """About how long the part takes on two cores, with the standard sizes and three rounds."""
    measure: Callable[[Ground], Found]
    sheets: Callable[[Found], list[Sheet]]
    draw: Callable[[Found, Any], None] | None = None
    """Draws what was found into a matplotlib figure."""


HOMES: Mapping[str, str] = {
    "throughput": "bench.parts.throughput",
    "latency": "bench.parts.latency",
    "waiting": "bench.parts.waiting",
    "blocked": "bench.parts.blocked",
    "batch": "bench.parts.batch",
    "dialogs": "bench.parts.dialogs",
    "keeping": "bench.parts.keeping",
    "release": "bench.release.part",
    "resending": "bench.resending.part",
    "remote": "bench.remote.part",
    "parking": "bench.parking.part",
    "scale": "bench.scale.part",
    "console": "bench.console.part",
    "spark": "bench.spark.part",
}
"""Modules with a ``PART``, in the order in which they are run."""


def known() -> list[str]:
    """Return the names of the parts whose modules exist."""
    return [name for name, home in HOMES.items() if _exists(home)]


def _exists(home: str) -> bool:
    try:
        return find_spec(home) is not None
    except ModuleNotFoundError:  # its package is missing
        return False


def load(name: str) -> Part:
    """Import a part."""
    part: Part = import_module(HOMES[name]).PART
    return part
