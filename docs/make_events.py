"""Writes docs/events.md and the JSON Schema of events from ``conversations.protocol.events``.

python docs/make_events.py           write them
python docs/make_events.py --check   exit 1 when the committed ones are stale
"""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from typing import Any

from conversations.protocol.events import EVENTS, Event, Kind, WorkerEvent, kinds_of

PAGE = Path(__file__).with_name("events.md")
SCHEMA = Path(__file__).resolve().parents[1] / "conversations" / "schemas" / "event.v1.json"
INTEGER = {"type": "integer"}
HEAD: dict[str, Any] = {"service": {"type": "string"}, "partition": INTEGER, "at": INTEGER}
"""What the owner of a partition says of itself, before the event's own fields."""
TEXT = """# Events

<!-- made by `make docs` from conversations/protocol/events.py -->

Workers and operators' tools report to the topic `<namespace>.events`. An event is a JSON object: `event` is its name, the fields
of the table follow in their order. A worker's event says between the two which `service` and `partition` reports, and `at`: when, in
microseconds since 1970. In a worker's event, a text has at most 1,000 characters. What a worker cannot write to the topic is a
line of its log.

A later version may add events and fields: skip a name that you do not know, and ignore a field that you do not know. The same as JSON
Schema: [event.v1.json](../conversations/schemas/event.v1.json).
"""


def words(kind: Kind) -> str:
    """Name the type of a field."""
    schema = kind.schema
    if schema["type"] == "array":
        return f"list of {schema['items']['type']}s"
    if schema["type"] == "object":
        return "integer by name"
    return "conversation id" if schema.get("format") == "uuid" else str(schema["type"])


def row(event: type[Event]) -> str:
    """Write the row of an event."""
    said = [
        f"`{name}` {words(kind)}{', may be missing' if kind.empty is None else ''}"
        for name, kind in kinds_of(event).items()
    ]
    return f"| `{event.NAME}` | {inspect.getdoc(event)} | {'; '.join(said)} |"


def page() -> str:
    """Write the page."""
    parts = [TEXT]
    for title, worker in (("Of workers", True), ("Of operators' tools", False)):
        rows = [row(event) for event in EVENTS.values() if issubclass(event, WorkerEvent) is worker]
        parts.append(f"## {title}\n\n| event | says | fields |\n|---|---|---|\n" + "\n".join(rows) + "\n")
    return "\n".join(parts).replace("``", "`")


def schema() -> str:
    """Write the JSON Schema."""
    content = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "An event of conversations",
        "description": "A reader skips an event of another name, and ignores other fields.",
        "oneOf": [_object(event) for event in EVENTS.values()],
    }
    return json.dumps(content, indent=2) + "\n"


def _object(event: type[Event]) -> dict[str, Any]:
    head = HEAD if issubclass(event, WorkerEvent) else {}
    kinds = kinds_of(event)
    return {
        "title": event.__name__,
        "description": inspect.getdoc(event),
        "type": "object",
        "properties": {"event": {"const": event.NAME}, **head, **{name: kind.schema for name, kind in kinds.items()}},
        "required": ["event", *head, *(name for name, kind in kinds.items() if kind.empty is not None)],
    }


def main(arguments: list[str]) -> int:
    """Write or check the files; return the exit code."""
    wanted = {PAGE: page(), SCHEMA: schema()}
    if arguments == ["--check"]:
        stale = [file.name for file, text in wanted.items() if not file.exists() or file.read_text("utf-8") != text]
        if stale:
            print(f"{', '.join(stale)}: stale, run `make docs`", file=sys.stderr)
        return int(bool(stale))
    for file, text in wanted.items():
        file.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
