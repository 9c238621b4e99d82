"""Records as JSON: bytes in hexadecimal, a union of records as ``{"Name": {...}}``."""

import json
from pathlib import Path
from typing import Any

from conversations.protocol.envelope import Envelope, encode
from conversations.protocol.envelope_avro import CURRENT, from_fields

FOLDER = Path(__file__).parent / "envelope.v1"


def from_json(schema: Any, names: dict[str, Any], data: Any) -> Any:
    """The datum that fastavro writes for ``data``, guided by a parsed schema."""
    if isinstance(schema, list):
        return _branch(schema, names, data)
    if isinstance(schema, str):
        schema = names.get(schema, schema)
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind in {"bytes", "fixed"}:
        return bytes.fromhex(data)
    if kind == "array":
        return [from_json(schema["items"], names, item) for item in data]
    if kind != "record":
        return data
    types = {field["name"]: field["type"] for field in schema["fields"]}
    return {name: from_json(types[name], names, value) for name, value in data.items()}


def _branch(schema: list[Any], names: dict[str, Any], data: Any) -> Any:
    if schema[0] == "null":
        return None if data is None else from_json(schema[1], names, data)
    ((name, fields),) = data.items()
    (branch,) = (record for record in schema if record["name"].endswith("." + name))
    return branch["name"], from_json(branch, names, fields)


def golden() -> dict[str, tuple[Envelope, Path]]:
    """Every golden envelope by name, and the file of its bytes."""
    found = {}
    for path in sorted(FOLDER.glob("*.json")):
        data = json.loads(path.read_text(encoding="utf-8"))
        envelope = from_fields(from_json(CURRENT.parsed, CURRENT.names, data))
        found[path.stem] = (envelope, path.with_suffix(".hex"))
    return found


if __name__ == "__main__":  # writes the bytes anew; a difference in git is a break of the wire format
    for envelope, path in golden().values():
        path.write_text(encode(envelope).hex() + "\n", encoding="ascii")
