"""The record format of the contenders that are not ours: plain Avro with the fields of a small envelope."""

from __future__ import annotations

import io
from typing import Any

import fastavro

TEXTS = ("conversation", "kind", "message_type", "contract", "sender", "receiver")
NUMBERS = ("seq", "ack", "sent_at", "fragment", "code")
FIELDS: dict[str, Any] = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        *({"name": name, "type": "string"} for name in TEXTS),
        *({"name": name, "type": "long"} for name in NUMBERS),
        {"name": "body", "type": "bytes"},
    ],
}
SCHEMA = fastavro.parse_schema(FIELDS)


def encode(envelope: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, SCHEMA, envelope)
    return out.getvalue()


def decode(value: bytes) -> Any:
    return fastavro.schemaless_reader(io.BytesIO(value), SCHEMA, None)
