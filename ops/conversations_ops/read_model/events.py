"""Finds events in the file of the read model: of a dialog, of a service, and decisions of operators."""

from __future__ import annotations

import json
from typing import NamedTuple

from conversations_ops.operate.events import Told
from conversations_ops.operate.journal import UNDECIDED
from conversations_ops.read_model.file import File

PAGE = 100
"""Number of events on a page."""


class Wanted(NamedTuple):
    """Conditions on events. An empty field is no condition."""

    service: str = ""
    name: str = ""
    by_person: bool = False
    """Only events that name who decided: the entries of the journal."""
    before: int = 2**62
    """Only events whose offset is before this one, for the next page."""
    since: int = 0
    """Only events of this time or later, in microseconds since 1970."""


class Event(NamedTuple):
    """An event and its offset in the events topic."""

    offset: int
    told: Told


_BY_PERSON = f" AND by <> '' AND name NOT IN {UNDECIDED}"
_SELECT = "SELECT at_offset, at, fields FROM events"


def events(file: File, wanted: Wanted, limit: int = PAGE) -> list[Event]:
    """Return events, the newest first."""
    index = " INDEXED BY events_by_person" if wanted.by_person else ""
    sql = (
        f"{_SELECT}{index} WHERE at_offset < ? AND at >= ? AND (? = '' OR service = ?) AND (? = '' OR name = ?)"
        f"{_BY_PERSON if wanted.by_person else ''} ORDER BY at_offset DESC LIMIT ?"
    )
    values = (wanted.before, wanted.since, wanted.service, wanted.service, wanted.name, wanted.name, limit)
    with file.explained():
        return [_event(row) for row in file.connection.execute(sql, values)]


def events_of(file: File, conversation: str, limit: int = PAGE) -> list[Event]:
    """Return the newest events about a dialog, the oldest of them first."""
    sql = f"{_SELECT} WHERE at_offset IN (SELECT at_offset FROM events WHERE conversation = ? AND conversation <> '' UNION SELECT at_offset FROM events WHERE dialog = ? AND dialog <> '') ORDER BY at_offset DESC LIMIT ?"  # noqa: S608 - a constant
    with file.explained():
        found = [_event(row) for row in file.connection.execute(sql, (conversation, conversation, limit))]
    return found[::-1]


def names(file: File) -> list[str]:
    """Return the names of the events that there are."""
    with file.explained():
        return [name for (name,) in file.connection.execute("SELECT DISTINCT name FROM events ORDER BY name")]


def _event(row: tuple[int, int, str]) -> Event:
    offset, at, fields = row
    return Event(offset, Told(at, {"event": "?", **json.loads(fields)}))


def redrive_events(file: File) -> list[bytes]:
    """Return the values of the events about redrives, the oldest first."""
    with file.explained():
        found = file.connection.execute("SELECT fields FROM events WHERE name GLOB 'REDRIVE_*' ORDER BY at_offset")
        return [fields.encode() for (fields,) in found]
