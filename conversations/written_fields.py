"""The fields of an object that are written as JSON: of a Pydantic model or a dataclass, also of one with slots."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import NoneType
from typing import Any, NamedTuple, get_args
from uuid import UUID
from weakref import WeakKeyDictionary

from pydantic import PlainSerializer, WrapSerializer

SCALARS: frozenset[Any] = frozenset({str, int, bool, bytes, NoneType, Decimal, datetime, date, time, timedelta, UUID})
"""Types of values that have no float in them."""
_ALL = "*"
_SERIALIZERS = PlainSerializer, WrapSerializer


class Fields(NamedTuple):
    """The names of fields of a class."""

    written: tuple[str, ...]
    """The fields that are written."""
    floats: tuple[str, ...]
    """The fields in which a float may be, and which Pydantic writes in its own way."""


_NONE = Fields((), ())
_known: WeakKeyDictionary[type, Fields] = WeakKeyDictionary()


def fields_of(kind: type) -> Fields:
    """Return the fields of a class. A class that is no model and no dataclass has none."""
    found = _known.get(kind)
    if found is None:
        found = _known[kind] = _fields(kind)
    return found


def extra_of(value: Any) -> Mapping[str, Any]:
    """Return the values of a model that its class does not name."""
    extra: Any = getattr(value, "__pydantic_extra__", None)
    return extra if isinstance(extra, dict) else {}


def _fields(kind: type) -> Fields:
    fields: Any = getattr(kind, "__pydantic_fields__", None)
    if not isinstance(fields, dict):
        names = tuple(it.name for it in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else ()
        return Fields(names, names) if names else _NONE
    written = [name for name, field in fields.items() if not field.exclude]
    own = _own_serializers(kind)
    floats = [
        name
        for name in written
        if _ALL not in own
        and name not in own
        and _may_be_float((*_leaves(fields[name].annotation), *fields[name].metadata))
    ]
    return Fields(tuple(written), tuple(floats))


def _own_serializers(kind: type) -> set[str]:
    """Return the names of the fields that a class writes in a way of its own; ``_ALL`` stands for all of them."""
    decorators: Any = getattr(kind, "__pydantic_decorators__", None)
    if decorators is None:
        return set()
    if decorators.model_serializers:
        return {_ALL}
    return {name for it in decorators.field_serializers.values() for name in it.info.fields}


def _may_be_float(leaves: tuple[Any, ...]) -> bool:
    if any(isinstance(it, _SERIALIZERS) for it in leaves):
        return False
    return not all(isinstance(it, type) and it in SCALARS for it in leaves)


def _leaves(annotation: Any) -> Iterator[Any]:
    """Yield the types in an annotation, and what it has besides types."""
    parts = get_args(annotation)
    if not parts:
        yield annotation
    for part in parts:
        yield from _leaves(part)
