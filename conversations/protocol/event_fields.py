"""The types that fields of events may have: how a value is checked, described, and read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NewType
from uuid import UUID

ConversationId = NewType("ConversationId", str)
"""A conversation id as text: a UUID in lower case, with hyphens."""


class Kind(NamedTuple):
    """The type of a field."""

    fits: Callable[[Any], bool]
    schema: Mapping[str, Any]
    """The type as a JSON Schema."""
    empty: object
    """The value of a missing field."""
    read: Callable[[Any], object] = lambda value: value


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_number(value: object) -> bool:
    return type(value) is int


def _is_id(value: object) -> bool:
    try:
        return isinstance(value, str) and str(UUID(value)) == value
    except ValueError:
        return False


def _list_of(fits: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(map(fits, value))


_TEXT = Kind(_is_text, {"type": "string"}, "")
_COUNTS = Kind(
    lambda value: isinstance(value, dict) and all(map(_is_number, value.values())),
    {"type": "object", "additionalProperties": {"type": "integer"}}, {},
)  # fmt: skip
KINDS: dict[object, Kind] = {
    str: _TEXT,
    str | None: _TEXT._replace(empty=None),
    int: Kind(_is_number, {"type": "integer"}, 0),
    float: Kind(lambda value: type(value) in (int, float), {"type": "number"}, 0.0),
    bool: Kind(lambda value: isinstance(value, bool), {"type": "boolean"}, empty=False),
    ConversationId: Kind(_is_id, {"type": "string", "format": "uuid"}, ""),
    tuple[int, ...]: Kind(_list_of(_is_number), {"type": "array", "items": {"type": "integer"}}, (), tuple),
    tuple[str, ...]: Kind(_list_of(_is_text), {"type": "array", "items": {"type": "string"}}, (), tuple),
    Mapping[str, int]: _COUNTS,
}
SHARED = {"command": _TEXT, "redrive": _TEXT, "why": _TEXT, "outcomes": _COUNTS}
"""Fields with the same meaning in every event. They are checked in unknown events, too."""
