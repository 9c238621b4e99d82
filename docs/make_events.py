"""Write docs/events.md and the JSON Schema of events from ``conversations.protocol.events``.

python docs/make_events.py           write both files
python docs/make_events.py --check   exit with 1 if a committed file is stale
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
"""Fields of every event of a worker, before the event's own fields."""
TEXT = """# Events

<!-- made by `make docs` from conversations/protocol/events.py -->

Workers, operators' tools and forwarders write events to the topic `<namespace>.events`. An event is a JSON object. Its first field is `event`, the
name of the event. In a worker's event, three fields follow: `service`, `partition`, and the time `at` in microseconds since 1970. Then the
fields of the table follow, in the same order. In a worker's event, a text has at most 1,000 characters. If a worker cannot write an event
to the topic, it writes the event to its log. The command `conversations events` prints the topic.

A later version may add events and fields. Skip an event whose name you do not know, and ignore a field that you do not know. The JSON
Schema of all events: [event.v1.json](../conversations/schemas/event.v1.json).
"""


def words(kind: Kind) -> str:
    """Return the type of a field, in words."""
    schema = kind.schema
    if schema["type"] == "array":
        return f"list of {schema['items']['type']}s"
    if schema["type"] == "object":
        return "integer by name"
    return "conversation id" if schema.get("format") == "uuid" else str(schema["type"])


def row(event: type[Event]) -> str:
    """Return the row of an event in the table."""
    said = [
        f"`{name}` {words(kind)}{', may be missing' if kind.empty is None else ''}"
        for name, kind in kinds_of(event).items()
    ]
    return f"| `{event.NAME}` | {' '.join((inspect.getdoc(event) or '').split())} | {'; '.join(said)} |"


def page() -> str:
    """Return the text of docs/events.md."""
    parts = [TEXT]
    for title, worker in (("Of workers", True), ("Of operators' tools and forwarders", False)):
        rows = [row(event) for event in EVENTS.values() if issubclass(event, WorkerEvent) is worker]
        parts.append(f"## {title}\n\n| event | says | fields |\n|---|---|---|\n" + "\n".join(rows) + "\n")
    return "\n".join(parts).replace("``", "`")


def schema() -> str:
    """Return the text of the JSON Schema."""
    content = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "An event of conversations",
        "description": "A reader skips an event with a name that is not listed, and ignores fields that are not listed.",
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
