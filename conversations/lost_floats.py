"""Floats that JSON does not have: infinity and NaN. Pydantic writes null for them, which many fields read as None."""

from __future__ import annotations

import math
from typing import Any


def lost_float(value: Any, found: Any, path: str) -> str | None:
    """Return the path of a float that is infinite or NaN in a value, and None in what was read; None if there is no such float."""
    if isinstance(value, float):
        return path if found is None and not math.isfinite(value) else None
    if isinstance(value, dict):
        if isinstance(found, dict):
            for key, part in value.items():
                if key in found and (lost := lost_float(part, found[key], f"{path}.{key}")) is not None:
                    return lost
        return None
    if isinstance(value, list | tuple):
        if isinstance(found, list | tuple):
            for at, (part, other) in enumerate(zip(value, found, strict=False)):
                if (lost := lost_float(part, other, f"{path}.{at}")) is not None:
                    return lost
        return None
    fields, others = _fields(value), _fields(found)
    return lost_float(fields, others, path) if fields and others else None


def _fields(value: Any) -> dict[str, Any]:
    """Return the fields of a model or a dataclass; none for other objects."""
    found: Any = getattr(value, "__dict__", None)
    if not isinstance(found, dict):
        return {}
    extra: Any = getattr(value, "__pydantic_extra__", None)
    return {**found, **extra} if isinstance(extra, dict) else found
