"""The Avro schemas of the records in topics, by name and version, and examples of records."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

Schema = dict[str, Any]

VERSIONS: dict[str, tuple[int, ...]] = {
    "envelope": (1,),
    "command": (1, 2, 3),
    "endpoint": (1, 2, 3, 4),
    "tombstone": (1, 2),
    "group": (1,),
    "waiting": (1,),
    "park": (1, 2),
    "unacknowledged": (1,),
    "partition": (1, 2),
}
"""The versions of every schema of this package, the oldest first."""


def load(name: str, version: int) -> Schema:
    """Return version ``version`` of the schema ``name``, as written in its ``.avsc`` file.

    Raises:
        KeyError: there is no such schema or version.
    """
    if version not in VERSIONS[name]:
        raise KeyError(f"{name}.v{version}")
    text = files(__name__).joinpath(f"{name}.v{version}.avsc").read_text(encoding="utf-8")
    schema: Schema = json.loads(text)
    return schema


def newest(name: str) -> int:
    """Return the newest version of the schema ``name``: the version that this code writes.

    Raises:
        KeyError: there is no such schema.
    """
    return VERSIONS[name][-1]


def examples(name: str, version: int) -> dict[str, Any]:
    """Return the examples of one schema version: the content of each file, by file name.

    The name of a file begins with ``good-`` if its record must encode, and decode to itself. It begins with ``bad-`` if its record must be refused.
    The README of this package describes the format.
    """
    folder = files(__name__).joinpath("examples", name, str(version))
    found = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".json")), key=lambda entry: entry.name)
    return {entry.name: json.loads(entry.read_text(encoding="utf-8")) for entry in found}
