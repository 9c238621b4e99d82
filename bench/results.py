"""Keeps the figures in ``results.json``: each part with its machine and the time of its measurement."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import machine
from bench.part import Found
from bench.plan import Plan

NAME = "results.json"
DIGITS = 3


def complete(found: Found, plan: Plan) -> Found:
    """Add what a reader needs to judge the figures."""
    return {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine.machine(),
        **found,
        "versions": {**machine.versions(), **found.get("versions", {})},
        "plan": {name: value for name, value in vars(plan).items() if value != getattr(Plan, name)},
    }


def read(directory: Path) -> dict[str, Found]:
    """Return the parts that are kept in a directory; none if there is no file."""
    path = directory / NAME
    if not path.exists():
        return {}
    parts: dict[str, Found] = json.loads(path.read_text(encoding="utf-8")).get("parts", {})
    return parts


def keep(directory: Path, name: str, found: Found) -> Path:
    """Put one part into the file, and leave the others as they are."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / NAME
    parts = {**read(directory), name: found}
    path.write_text(text({"parts": parts}) + "\n", encoding="utf-8")
    return path


def text(value: Any) -> str:
    """Return JSON with one item per line. A list of numbers is on one line."""
    return _lines(value, "")


def _lines(value: Any, indent: str) -> str:
    deeper = indent + "  "
    if isinstance(value, dict) and value:
        items = (f"{deeper}{json.dumps(str(name))}: {_lines(it, deeper)}" for name, it in value.items())
        return "{\n" + ",\n".join(items) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(it, dict | list) for it in value):
        return "[\n" + ",\n".join(deeper + _lines(it, deeper) for it in value) + f"\n{indent}]"
    return json.dumps(round(value, DIGITS) if isinstance(value, float) else value)
