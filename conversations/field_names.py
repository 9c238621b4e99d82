"""The names of fields in JSON: the ones that Pydantic writes for a class, and the ones that it reads.

A field with an alias has two names, and the configuration of its class says which of them are read. If the field has a default, and is written by a name
that is not read, its value is lost without an error. Releases of Pydantic differ in the name that they write, so it is chosen here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

_CLASSES = {"dataclass", "model", "typed-dict"}
_NO_SCHEMAS = {"cls", "default", "expected", "metadata", "serialization"}
"""Entries of a core schema with objects of the application, and with what a class writes in a way of its own."""


class Choice(NamedTuple):
    """How a class is written, so that it is read again."""

    ways: list[bool | None]
    """What to try in turn as Pydantic's ``by_alias``; None leaves it to the configuration of each class."""
    lost: str
    """Why a field may be lost in each of these ways; "" if none is. A class with code of its own may read such a field all the same."""


class Field(NamedTuple):
    """A field whose name in JSON may differ from its name in its class."""

    name: str
    alias: str
    """The name that is written if aliases are written."""
    read: set[str]
    """The names that are read."""
    by_alias: bool
    """True if the configuration of its class says that the alias is written."""

    def written(self, by_alias: bool | None) -> str:
        """Return the name that is written."""
        return self.alias if (self.by_alias if by_alias is None else by_alias) else self.name


def choice_of(schema: Mapping[str, Any]) -> Choice:
    """Return how objects of a class are written. ``schema`` is Pydantic's core schema of the class."""
    fields, unread = list(_fields(schema, {})), next(_unread(schema), "")
    if not any(it.alias != it.name or it.name not in it.read for it in fields):
        return Choice([None], unread)  # there is no alias
    for way in (True, False, None):
        if all(it.written(way) in it.read for it in fields):
            return Choice([way], unread)
    field = next(it for it in fields if it.alias not in it.read)
    names = " or ".join(map(repr, sorted(field.read))) or "a part of another field"
    why = (
        f"the field {field.name!r} is written as {field.alias!r} and read as {names}; "
        "give it one name for both, as Field(alias=...) does"
    )
    return Choice([True, None, False], why)


def schemas(schema: Any) -> Iterator[Any]:
    """Yield the schemas inside a part of a core schema."""
    if isinstance(schema, list | tuple):
        yield from schema
    elif schema.get("type") == "tagged-union":
        yield from schema["choices"].values()  # their keys are tags
    else:
        for key, part in schema.items():
            if key == "fields" and isinstance(part, dict):
                yield from part.values()  # their keys are names
            elif key not in _NO_SCHEMAS and isinstance(part, dict | list | tuple):
                yield part


def _fields(schema: Any, config: Mapping[str, Any]) -> Iterator[Field]:
    """Yield the fields with an alias in a core schema. ``config`` is the configuration of the class around it."""
    if isinstance(schema, dict):
        if schema.get("type") in _CLASSES:
            config = schema.get("config", {})
        named = schema.get("fields")
        if isinstance(named, dict):
            for name, field in named.items():
                yield from _field(name, field, config)
        elif schema.get("type") == "dataclass-field":
            yield from _field(schema["name"], schema, config)
    if isinstance(schema, dict | list | tuple):
        for part in schemas(schema):
            yield from _fields(part, config)


def _field(name: str, field: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[Field]:
    """Yield a field if it has an alias, and is written at all."""
    alias, other = field.get("validation_alias"), field.get("serialization_alias", name)
    if (alias is None and other == name) or field.get("serialization_exclude"):
        return
    read = set(_choices(alias)) if config.get("validate_by_alias", True) else set()
    if alias is None or config.get("validate_by_name") or config.get("populate_by_name"):
        read.add(name)
    yield Field(name, other, read, bool(config.get("serialize_by_alias")))


def _choices(alias: Any) -> Iterator[str]:
    """Yield the names in a validation alias: a name, a path, or a list of paths. A path into another field is no name."""
    if isinstance(alias, str):
        yield alias
    elif isinstance(alias, list):
        for path in alias if alias and isinstance(alias[0], list) else [alias]:
            if len(path) == 1:
                yield path[0]


def _unread(schema: Any) -> Iterator[str]:
    """Yield why a field may be lost whose name does not tell it: its class writes in a way of its own, or the field is written and not read."""
    if isinstance(schema, dict):
        kind = schema.get("type")
        if kind in _CLASSES and str(schema.get("serialization", {}).get("type", "")).startswith("function"):
            name = getattr(schema.get("cls"), "__name__", "a class")
            yield f"{name} writes itself in a way of its own, from which it is not read again as the same object"
        if kind == "dataclass-field" and schema.get("init") is False:
            yield f"the field {schema['name']!r} has init=False: it is written, and not read again"
    if isinstance(schema, dict | list | tuple):
        for part in schemas(schema):
            yield from _unread(part)
