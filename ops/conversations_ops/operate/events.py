"""Events as commands read them: records of a topic that many write, of which any may be something else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from uuid import UUID

from conversations.ports import Record
from conversations_ops.operate.left_out import LeftOut, place_of

Event = dict[str, Any]
Fits = Callable[[Any], bool]


def understood(records: Iterable[Record]) -> list[Event]:
    """Read events, in order; what is none, or says something else than its name promises, is left out with a warning."""
    found: list[Event] = []
    left_out: LeftOut | None = None
    for record in records:
        try:
            found.append(event_of(record.value()))
        except (ValueError, RecursionError) as error:
            left_out = left_out or LeftOut(record.topic())
            left_out.add(place_of(record.partition(), record.offset()), error)
    if left_out is not None:
        left_out.tell()
    return found


def event_of(value: bytes | None) -> Event:
    """Read one event: it has a name, and the fields that are read of such events are there and of their types.

    Raises:
        ValueError: it is none.
        RecursionError: it is nested too deeply.
    """
    event = json.loads(value or b"")
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        raise ValueError("it is no JSON object that says which event it is")  # noqa: TRY004 - as what json raises
    needed = _NEEDED.get(event["event"], {})
    for field, fits in (_ALLOWED | needed).items():
        if (field in needed or field in event) and not fits(event.get(field)):
            raise ValueError(f"its {field} is {event.get(field)!r:.80}")
    return event


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_time(value: Any) -> bool:
    return type(value) is int


def _is_id(value: Any) -> bool:
    try:
        return isinstance(value, str) and str(UUID(value)) == value
    except ValueError:
        return False


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_counts(value: Any) -> bool:
    return isinstance(value, dict) and all(type(number) is int for number in value.values())


_ALLOWED: dict[str, Fits] = {"command": _is_text, "redrive": _is_text, "why": _is_text, "outcomes": _is_counts}
"""Fields that any event may have."""
_REDRIVE: dict[str, Fits] = {"redrive": _is_text, "by": _is_text}
_NEEDED: Mapping[str, dict[str, Fits]] = {
    "RETURNED": {"command": _is_text, "outcome": _is_text},
    "COMMAND_REFUSED": {"command": _is_text, "why": _is_text},
    "RESUBMITTING": {"conversation": _is_id, "dialog": _is_id, "letters": _is_texts, "at": _is_time},
    "REDRIVE_STARTED": _REDRIVE,
    "REDRIVE_PROGRESS": _REDRIVE,
    "REDRIVE_STOP": _REDRIVE,
    "REDRIVE_ENDED": _REDRIVE | {"end": _is_text},
}
"""Fields that are read of events of a name."""
