"""Leaves out what a user without the right to see bodies must not see: texts of exceptions, which often have a part of a body."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from conversations.protocol.parked import Parked
from conversations_ops.operate.dialogs import Side
from conversations_ops.operate.queues import Queue
from conversations_ops.read_model.events import Event
from conversations_ops.read_model.letters import Group, Head, Kept
from conversations_ops.read_model.status import Status
from conversations_ops.web.users import User
from conversations_ops.why.facts import Way
from conversations_ops.why.routes import Route

_TEXTS = ("failure", "why")
"""Fields of events that have the text of an exception. The field ``reason`` has it, too, if a policy or a worker turned a queue off."""
_BY_PERSON = ("", "operator")
"""Why a queue is on, or off, if its reason was written by an operator."""


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


def queues_for(user: User, queues: Sequence[Queue]) -> list[Queue]:
    """Return queues as a user may see them. If no operator turned a queue off, the reason is the text of an exception."""
    return [it if user.bodies or it.off in _BY_PERSON else it._replace(reason=_class(it.reason)) for it in queues]


def statuses_for(user: User, found: Sequence[Status]) -> list[Status]:
    """Return the status of services as a user may see it."""
    hides = not user.bodies
    return [
        it._replace(off_reason=_class(it.off_reason)) if hides and it.off_why not in _BY_PERSON else it for it in found
    ]


def routes_for(user: User, found: Sequence[Route]) -> list[Route]:
    """Return the routes to other clusters as a user may see them. What a forwarder was told is a text of an exception."""
    return [it._replace(way=ways_for(user, it.way)) for it in found]


def ways_for(user: User, it: Way) -> Way:
    """Return the way to another cluster as a user may see it."""
    if user.bodies or it.away is None:
        return it
    since, why = it.away
    return it._replace(away=(since, _class(why)))


def _event(it: Event) -> Event:
    fields = it.told.fields
    texts = _TEXTS if fields.get("cause", "operator") in _BY_PERSON else (*_TEXTS, "reason")
    cut = {name: _class(str(fields[name])) for name in texts if name in fields}
    return it._replace(told=it.told._replace(fields={**it.told.fields, **cut}))


def _class(failure: str) -> str:
    """Return the class of an exception from ``class: text``."""
    return failure.partition(":")[0]
