"""Plain models: Pydantic models whose fields are numbers, texts and booleans, without any rule that a class may add.

The JSON of such a model is valid if each value has exactly the type of its field. So what a handler sends need not be decoded again to be sure of it.
That would take twice as long as the encoding.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, cast

_KINDS: Final[dict[str, type]] = {"bool": bool, "float": float, "int": int, "str": str}
_LARGEST: Final = (1 << 63) - 1
"""Largest integer that is not checked by Pydantic, which limits the digits of very large ones."""
_MODEL_KEYS: Final = {"cls", "config", "custom_init", "metadata", "ref", "root_model", "schema", "type"}
_CONFIG_KEYS: Final = {"extra_fields_behavior", "title"}
_FIELDS_KEYS: Final = {"computed_fields", "fields", "model_name", "type"}
_FIELD_KEYS: Final = {"metadata", "schema", "type"}
_DEFAULT_KEYS: Final = {"default", "default_factory", "default_factory_takes_data", "metadata", "schema", "type"}
_VALUE_KEYS: Final = {"metadata", "type"}


class PlainModel:
    """The fields of a plain model, with their types."""

    __slots__ = ("_kinds", "_optional")

    def __init__(self, kinds: dict[str, type], optional: set[str]) -> None:
        self._kinds = kinds
        self._optional = optional
        """Names of the fields that may be None."""

    def fits(self, body: object) -> bool:
        """Return True if the JSON of an instance of the class is certainly valid; False if Pydantic must decide this."""
        values: dict[str, object] = body.__dict__
        kinds = self._kinds
        if len(values) != len(kinds):
            return False
        for name, value in values.items():
            kind = kinds.get(name)
            if type(value) is not kind:
                if value is not None or name not in self._optional:
                    return False
            elif kind is int:
                if not -_LARGEST <= cast("int", value) <= _LARGEST:
                    return False
            elif kind is float and not math.isfinite(cast("float", value)):
                return False
        return True


def plain_model(model: type, schema: Mapping[str, Any]) -> PlainModel | None:
    """Return the fields of a class if it is a plain model, else None.

    Args:
        model: the class.
        schema: Pydantic's core schema of the class. An entry that is not known here may be a rule. So a class with one is not plain.
    """
    fields = schema.get("schema")
    if (
        schema.get("cls") is not model
        or model.__new__ is not object.__new__
        or not _is_only(schema, "model", _MODEL_KEYS)
    ):
        return None
    if schema.get("custom_init") or schema.get("root_model") or not _has_no_rule(schema.get("config", {})):
        return None
    if (
        not isinstance(fields, dict)
        or not _is_only(fields, "model-fields", _FIELDS_KEYS)
        or fields.get("computed_fields")
    ):
        return None
    kinds: dict[str, type] = {}
    optional: set[str] = set()
    for name, field in fields["fields"].items():
        if not _is_only(field, "model-field", _FIELD_KEYS):
            return None
        value = field["schema"]
        if _is_only(value, "default", _DEFAULT_KEYS):
            value = value["schema"]
        if _is_only(value, "nullable", _FIELD_KEYS):
            value = value["schema"]
            optional.add(name)
        kind = _KINDS.get(value["type"])
        if kind is None or not value.keys() <= _VALUE_KEYS:
            return None
        kinds[name] = kind
    return PlainModel(kinds, optional)


def _is_only(schema: Mapping[str, Any], kind: str, keys: set[str]) -> bool:
    return schema["type"] == kind and schema.keys() <= keys


def _has_no_rule(config: Mapping[str, Any]) -> bool:
    """Return True if a model's configuration has no rule for values."""
    return config.keys() <= _CONFIG_KEYS and config.get("extra_fields_behavior") in (None, "ignore", "forbid")
