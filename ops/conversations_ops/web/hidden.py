"""Leaves out what a user without the right to see bodies must not see: texts of exceptions, which often have a part of a body."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from conversations.protocol.parked import Parked
from conversations_ops.operate.dialogs import Side
from conversations_ops.read_model.events import Event
from conversations_ops.read_model.letters import Group, Head, Kept
from conversations_ops.web.users import User

_TEXTS = ("failure", "why")
"""Fields of events that have the text of an exception."""


Failed = TypeVar("Failed", Parked, Head, Group)


def failed_for(user: User, it: Failed) -> Failed:
    """Return a failed message as a user may see it."""
    return it if user.bodies else it._replace(failure=_class(it.failure))


def sides_for(user: User, sides: Sequence[Side]) -> list[Side]:
    """Return the sides of a dialog as a user may see them."""
    return [it if user.bodies else replace(it, heads=[failed_for(user, head) for head in it.heads]) for it in sides]


def letters_for(user: User, letters: Sequence[Kept]) -> list[Kept]:
    """Return dead letters as a user may see them."""
    return [it if user.bodies else it._replace(message="") for it in letters]


def events_for(user: User, events: Sequence[Event]) -> list[Event]:
    """Return events as a user may see them."""
    return list(events) if user.bodies else [_event(it) for it in events]


def _event(it: Event) -> Event:
    cut = {name: _class(str(it.told.fields[name])) for name in _TEXTS if name in it.told.fields}
    return it._replace(told=it.told._replace(fields={**it.told.fields, **cut}))


def _class(failure: str) -> str:
    """Return the class of an exception from ``class: text``."""
    return failure.partition(":")[0]
