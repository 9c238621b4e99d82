"""The names of fields in JSON: the ones that Pydantic writes for a class, and the ones that it reads.

A field with an alias has two names, and the configuration of its class says which of them are read. If the field has a default, and is written by a name
that is not read, its value is lost without an error. Releases of Pydantic differ in the name that they write, so it is chosen here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

_CLASSES = {"dataclass", "model", "typed-dict"}
_OF_THE_APPLICATION = {"cls", "default", "metadata"}
"""Entries of a core schema with objects of the application."""


class FieldName(NamedTuple):
    """A field whose name in JSON may differ from its name in its class."""

    name: str
    alias: str
    """The name that is written if aliases are written."""
    read: set[str]
    """The names that are read."""

    def written(self, *, by_alias: bool) -> str:
        """Return the name that is written."""
        return self.alias if by_alias else self.name


def writes_aliases(schema: Mapping[str, Any]) -> bool:
    """Return True if the fields of a class are written by their aliases; False if only their own names are read.

    Args:
        schema: Pydantic's core schema of the class.
    """
    found = list(_names(schema, {}))
    return _lost(found, by_alias=True) is None or _lost(found, by_alias=False) is not None


def lost(schema: Mapping[str, Any]) -> str:
    """Return why a field of a class may be lost between its writer and its reader; "" if no field is.

    A class with code of its own may read such a field all the same. So the caller compares what is read with what was written.
    """
    by_alias = writes_aliases(schema)
    field = _lost(_names(schema, {}), by_alias=by_alias)
    if field is None:
        return ""
    names = " or ".join(map(repr, sorted(field.read))) or "a part of another field"
    return (
        f"the field {field.name!r} is written as {field.written(by_alias=by_alias)!r} and read as {names}; "
        "give it one name for both, as Field(alias=...) does"
    )


def _lost(fields: Iterable[FieldName], *, by_alias: bool) -> FieldName | None:
    """Return the first field that is written by a name that is not read."""
    return next((it for it in fields if it.written(by_alias=by_alias) not in it.read), None)


def _names(schema: Any, config: Mapping[str, Any]) -> Iterator[FieldName]:
    """Yield the fields with an alias in a core schema. ``config`` is the configuration of the class around it."""
    if isinstance(schema, list | tuple):
        for part in schema:
            yield from _names(part, config)
    elif isinstance(schema, dict):
        kind = schema.get("type")
        if kind in _CLASSES:
            config = schema.get("config", {})
        elif kind == "dataclass-field":
            yield from _name(schema["name"], schema, config)
        for key, part in schema.items():
            if key == "fields" and isinstance(part, dict):
                for name, field in part.items():
                    yield from _name(name, field, config)
                    yield from _names(field, config)
            elif key not in _OF_THE_APPLICATION:
                yield from _names(part, config)


def _name(name: str, field: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[FieldName]:
    """Yield the name of a field if it has an alias, and is written at all."""
    alias, other = field.get("validation_alias"), field.get("serialization_alias", name)
    if (alias is None and other == name) or field.get("serialization_exclude"):
        return
    read = set(_choices(alias)) if config.get("validate_by_alias", True) else set()
    if alias is None or config.get("validate_by_name") or config.get("populate_by_name"):
        read.add(name)
    yield FieldName(name, other, read)


def _choices(alias: Any) -> Iterator[str]:
    """Yield the names in a validation alias: a name, a path, or a list of paths. A path into another field is no name."""
    if isinstance(alias, str):
        yield alias
    elif isinstance(alias, list):
        for path in alias if alias and isinstance(alias[0], list) else [alias]:
            if len(path) == 1:
                yield path[0]
