"""Checks JSON against the JSON schemas that the catalog has of bodies of classes.

The check knows the keywords for types, fields, elements, choices, lengths and ranges. It ignores others, for example patterns and formats, because
a pattern from outside may take very long. So what passes here may still be refused by the service that gets it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

DEEPEST = 60
"""Maximum depth of a body, and of references to references."""
MOST = 5
"""Maximum number of faults that are named."""
_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "boolean": (bool,), "null": (type(None),), "integer": (int,), "number": (int, float),
}  # fmt: skip


def faults(schema: Mapping[str, Any], body: object) -> list[str]:
    """Return what does not fit, at most ``MOST`` faults: each with the path of the field. The list is empty if everything fits."""
    found = []
    for fault in _faults(schema, body, (schema, ""), 0):
        found.append(fault)
        if len(found) == MOST:
            break
    return found


def _faults(schema: Any, value: object, place: tuple[Mapping[str, Any], str], depth: int) -> Iterator[str]:
    """Yield the faults of a value. ``place`` is the whole schema and the path of the value."""
    root, path = place
    if depth > DEEPEST:
        yield _at(path, f"is nested more than {DEEPEST} times")
        return
    if schema is False:
        yield _at(path, "is not allowed")
    if not isinstance(schema, Mapping):
        return
    if isinstance(to := schema.get("$ref"), str) and to.startswith("#/"):
        yield from _faults(_target(root, to), value, place, depth + 1)
    if not _has_type(schema.get("type"), value):
        yield _at(path, f"must be {_named(schema['type'])}, not {_kind(value)}")
        return
    for known in ("allOf", "anyOf", "oneOf"):
        if isinstance(choices := schema.get(known), Sequence):
            yield from _choice(known, choices, value, place, depth)
    if isinstance(allowed := schema.get("enum"), list) and value not in allowed:
        yield _at(path, f"must be one of {', '.join(map(repr, allowed))[:200]}")
    if "const" in schema and value != schema["const"]:
        yield _at(path, f"must be {schema['const']!r:.80}")
    yield from (_at(path, fault) for fault in _bounds(schema, value))
    if isinstance(value, dict):
        yield from _fields(schema, value, place, depth)
    elif isinstance(value, list):
        first = schema.get("prefixItems", [])
        for number, it in enumerate(value):
            inner = first[number] if isinstance(first, list) and number < len(first) else schema.get("items", True)
            yield from _faults(inner, it, (root, _inside(path, str(number))), depth + 1)


def _choice(
    known: str, choices: Sequence[Any], value: object, place: tuple[Mapping[str, Any], str], depth: int
) -> Iterator[str]:
    failed = [list(_faults(it, value, place, depth + 1)) for it in choices]
    if known == "allOf":
        yield from (fault for found in failed for fault in found)
    elif all(failed):
        yield from min(failed, key=len, default=[])


def _fields(
    schema: Mapping[str, Any], value: dict[str, Any], place: tuple[Mapping[str, Any], str], depth: int
) -> Iterator[str]:
    root, path = place
    known = schema.get("properties", {})
    known = known if isinstance(known, Mapping) else {}
    for name in schema.get("required", []):
        if name not in value:
            yield _at(_inside(path, str(name)), "is missing")
    for name, it in value.items():
        inner = known.get(name, schema.get("additionalProperties", True))
        if inner is False:
            yield _at(
                _inside(path, name), f"is no field of this body; its fields are {', '.join(map(str, known))[:200]}"
            )
        else:
            yield from _faults(inner, it, (root, _inside(path, name)), depth + 1)


_LIMITS = {"minimum": (">=", -1), "maximum": ("<=", 1), "exclusiveMinimum": (">", -1), "exclusiveMaximum": ("<", 1)}


def _bounds(schema: Mapping[str, Any], value: object) -> Iterator[str]:
    if isinstance(value, float) and not math.isfinite(value):
        yield "must be a finite number"
    elif isinstance(value, int | float) and not isinstance(value, bool):
        for name, (sign, side) in _LIMITS.items():
            limit = schema.get(name)
            if not isinstance(limit, int | float):
                continue
            beyond = (value > limit) - (value < limit)
            if beyond == side or (beyond == 0 and name.startswith("exclusive")):
                yield f"must be {sign} {limit}"
    elif isinstance(value, str | list | dict):
        ending = {str: "Length", list: "Items", dict: "Properties"}[type(value)]
        least, most = schema.get(f"min{ending}"), schema.get(f"max{ending}")
        if isinstance(least, int) and len(value) < least:
            yield f"must have at least {least} {'characters' if ending == 'Length' else 'elements'}"
        if isinstance(most, int) and len(value) > most:
            yield f"must have at most {most} {'characters' if ending == 'Length' else 'elements'}"


def _target(root: Mapping[str, Any], to: str) -> Any:
    found: Any = root
    for part in to[2:].split("/"):
        found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
    return found


def _has_type(wanted: object, value: object) -> bool:
    names = [wanted] if isinstance(wanted, str) else wanted
    if not isinstance(names, list):
        return True
    return any(_is(name, value) for name in names)


def _is(name: object, value: object) -> bool:
    classes = _TYPES.get(str(name))
    if classes is None:
        return True
    if isinstance(value, bool):
        return bool in classes
    return isinstance(value, classes) or (name == "integer" and isinstance(value, float) and value.is_integer())


def _named(wanted: object) -> str:
    return " or ".join(map(str, wanted)) if isinstance(wanted, list) else str(wanted)


def _kind(value: object) -> str:
    return next(name for name in ("boolean", "object", "array", "string", "null", "number") if _is(name, value))


def _inside(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _at(path: str, fault: str) -> str:
    return f"{path or 'the body'} {fault}"
