"""The commands below ``conversations``, and the module of each. A module is imported when its command is needed, because all of them take half a second."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import typer


class Place(NamedTuple):
    """Where a command is declared."""

    module: str
    """Name of a module of this package."""
    attribute: str = "app"
    """The Typer object of the module that declares the command."""
    group: bool = False
    """True if the Typer object is a group of commands, and the name is the name of the group."""


PLACES: Mapping[str, Place] = {
    "demo": Place("demo"),
    "run": Place("run"),
    "check": Place("declarations"),
    "apply": Place("declarations"),
    "settings": Place("settings"),
    "acl": Place("acl"),
    "codes": Place("codes"),
    "version": Place("versions"),
    "broker": Place("broker", group=True),
    "status": Place("status"),
    "why": Place("why"),
    "timers": Place("timers"),
    "send": Place("sending"),
    "request": Place("sending"),
    "console": Place("console"),
    "users": Place("users", group=True),
    "doctor": Place("doctor"),
    "dead-letters": Place("dead_letters", group=True),
    "retries": Place("dead_letters", "retries", group=True),
    "dialogs": Place("dialogs", group=True),
    "queue": Place("queue", group=True),
    "events": Place("events"),
    "journal": Place("journal"),
    "redrive": Place("redrive", group=True),
    "route": Place("routes", group=True),
    "forward": Place("forward"),
    "transmission": Place("transmission", group=True),
    "spark": Place("spark", group=True),
}
"""All commands, in the order of ``conversations --help``."""


class Commands(Mapping[str, Any]):
    """The commands as Typer's groups take them, by name. The first use of a command imports its module."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = _load(name, PLACES[name])
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(PLACES)

    def __len__(self) -> int:
        return len(PLACES)

    def __contains__(self, name: object) -> bool:
        return name in PLACES


def _load(name: str, place: Place) -> Any:
    declared = typer.main.get_group(getattr(import_module(f"{__package__}.{place.module}"), place.attribute))
    if not place.group:
        return declared.commands[name]
    declared.name = name
    return declared
