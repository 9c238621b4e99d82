"""Floats that JSON does not have: infinity and NaN. Pydantic writes null for them, which many fields read as None."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from itertools import zip_longest
from typing import Any

from conversations.field_names import schemas
from conversations.written_fields import SCALARS, extra_of, fields_of

_WITH_FLOATS = {"any", "callable", "float", "function-plain", "generator", "is-instance", "is-subclass"}
"""Types of core schemas whose values may be floats, or anything."""
_ALLOW = "allow"
_SETS, _LISTS, _TEXTS = (set, frozenset), (list, tuple, deque), (str, int, bytes)
_COLLECTIONS = (*_LISTS, *_SETS)


def may_have_floats(schema: Any) -> bool:
    """Return True if a float may be in a value of a core schema."""
    if isinstance(schema, Mapping):
        if schema.get("type") in _WITH_FLOATS or _ALLOW in (
            schema.get("extra_behavior"),
            schema.get("config", {}).get("extra_fields_behavior"),
        ):
            return True
    elif not isinstance(schema, list | tuple):
        return False
    return any(may_have_floats(part) for part in schemas(schema))


def has_lost_float(value: Any) -> bool:
    """Return True if a float that JSON does not have is in a value. Fields that are not written, or in a way of their class, do not count."""
    return _has(value, set())


def _has(value: Any, seen: set[int]) -> bool:
    kind = type(value)
    if kind is not dict and kind is not list:
        if isinstance(value, float):
            return not math.isfinite(value)
        if isinstance(value, _TEXTS):
            return False
    if id(value) in seen:
        return False
    seen.add(id(value))  # an object may have itself in it
    parts = value.values() if kind is dict else value if kind is list else _parts(value)
    for part in parts:  # noqa: SIM110 - a generator takes as long as the rest
        if type(part) not in SCALARS and _has(part, seen):
            return True
    return False


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    if isinstance(value, _COLLECTIONS):
        return value
    named = [getattr(value, name, None) for name in fields_of(type(value)).floats]
    extra = extra_of(value)
    return [*named, *extra.values()] if extra else named


def lost_float(value: Any, found: Any) -> str:
    """Return the path of a float that is infinite or NaN in a value, and is not in what was read; "" if there is no such float."""
    path = _path(value, found, set())
    return "" if path is None else ".".join(path) or "the value"


def _path(value: Any, found: Any, seen: set[int]) -> list[str] | None:
    if isinstance(value, float):
        return [] if not math.isfinite(value) and not (isinstance(found, float) and not math.isfinite(found)) else None
    if isinstance(value, _TEXTS) or id(value) in seen:
        return None
    seen.add(id(value))
    for name, part, other in _pairs(value, found):
        if (path := _path(part, other, seen)) is not None:
            return [name, *path]
    return None


def _pairs(value: Any, found: Any) -> Iterable[tuple[str, Any, Any]]:
    """Yield the parts of a value, each with its name and with the part that was read in its place; None if there is none."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield str(key), part, _get(found, key)
    elif isinstance(value, _SETS):
        lost = (
            [it for it in found if isinstance(it, float) and not math.isfinite(it)] if isinstance(found, _SETS) else []
        )
        for part in value:
            yield str(part), part, lost[0] if lost else None
    elif isinstance(value, _LISTS):
        others = found if isinstance(found, _LISTS) else ()
        for at, (part, other) in enumerate(zip_longest(value, others)):
            yield str(at), part, other
    else:
        # An object of a subclass is written as its declared class, which may have fewer fields.
        kind = type(found) if isinstance(value, type(found)) else type(value)
        for name in fields_of(kind).floats:
            yield name, getattr(value, name, None), _get(found, name)
        for name, part in extra_of(value).items():
            yield name, part, _get(found, name)


def _get(found: Any, key: Any) -> Any:
    """Return the part that was read under a key, which is a text in JSON, or under the name of a field."""
    if isinstance(found, Mapping):
        return found.get(key, found.get(str(key)))
    return getattr(found, key, None) if isinstance(key, str) else None
