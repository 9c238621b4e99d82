"""Compares an object with the one that was read from its JSON.

Python's ``==`` asks too much: private attributes and fields that are excluded never come back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from conversations.written_fields import extra_of, fields_of


def is_same(value: Any, found: Any) -> bool:
    """Return True if everything that is written of an object has come back."""
    return _is_same(value, found, set())


def _is_same(value: Any, found: Any, seen: set[tuple[int, int]]) -> bool:
    if (id(value), id(found)) in seen:
        return True  # it is being compared
    if isinstance(value, Mapping):
        seen.add((id(value), id(found)))
        return (
            isinstance(found, Mapping)
            and value.keys() == found.keys()
            and all(_is_same(part, found[key], seen) for key, part in value.items())
        )
    if isinstance(value, list | tuple | deque):
        seen.add((id(value), id(found)))
        return (
            isinstance(found, list | tuple | deque)
            and len(value) == len(found)
            and all(_is_same(part, other, seen) for part, other in zip(value, found, strict=True))
        )
    names = fields_of(type(value)).written
    if not names:
        return bool(value == found) or (value != value and found != found)  # noqa: PLR0124 - NaN is not itself
    seen.add((id(value), id(found)))
    return (
        type(value) is type(found)
        and all(_is_same(getattr(value, name, None), getattr(found, name, None), seen) for name in names)
        and _is_same(extra_of(value), extra_of(found), seen)
    )
