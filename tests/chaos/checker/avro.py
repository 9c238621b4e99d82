"""Records as the schema files say: Avro in single-object encoding, decoded by fastavro alone."""

from __future__ import annotations

import json
import struct
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
from fastavro.schema import fingerprint, to_parsing_canonical_form

SCHEMAS = Path(__file__).resolve().parents[3] / "conversations" / "schemas"
MARKER = b"\xc3\x01"
_BROKEN = (EOFError, ValueError, IndexError, KeyError, TypeError, OverflowError, MemoryError, struct.error)


class Undecodable(Exception):
    """The bytes are no record of the schema."""


class Schema:
    """One schema file."""

    def __init__(self, name: str) -> None:
        """Parse ``conversations/schemas/<name>.avsc``, with its version; logical types are left out, so that times stay integers."""
        source = json.loads((SCHEMAS / f"{name}.avsc").read_text(encoding="utf-8"))
        self._parsed: Any = fastavro.parse_schema(_plain(source))
        self.head = MARKER + bytes.fromhex(fingerprint(to_parsing_canonical_form(source), "CRC-64-AVRO"))

    def decode(self, value: bytes) -> dict[str, Any]:
        """Decode a record.

        Raises:
            Undecodable: another schema, truncated, trailing bytes, or not Avro.
        """
        if not value.startswith(self.head):
            raise Undecodable(f"begins with {value[:10].hex()}")
        body = BytesIO(value)
        body.seek(len(self.head))
        try:
            fields: Any = fastavro.schemaless_reader(
                body, self._parsed, None, return_record_name=True, return_record_name_override=True
            )
        except _BROKEN as error:
            raise Undecodable(repr(error)) from None
        if body.tell() != len(value):
            raise Undecodable(f"{len(value) - body.tell()} trailing bytes")
        if not isinstance(fields, dict):
            raise Undecodable("not a record")
        return fields

    def encode(self, fields: dict[str, Any]) -> bytes:
        """Encode a record; fastavro reads more than it writes, so this tells whether bytes are the only right ones."""
        out = BytesIO()
        fastavro.schemaless_writer(out, self._parsed, fields)
        return self.head + out.getvalue()


def _plain(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_plain(part) for part in schema]
    if isinstance(schema, dict):
        return {key: _plain(part) for key, part in schema.items() if key != "logicalType"}
    return schema


ENVELOPE, COMMAND, ENDPOINT, TOMBSTONE, GROUP, WAITING, UNACKNOWLEDGED, PARTITION = map(
    Schema,
    (
        "envelope.v1",
        "command.v3",
        "endpoint.v3",
        "tombstone.v2",
        "group.v1",
        "waiting.v1",
        "unacknowledged.v1",
        "partition.v2",
    ),
)

KINDS = {name: number for number, name in enumerate(("MESSAGE", "END", "ERROR", "ACK", "RESEND", "FENCE", "FENCED"))}


def _long(number: int) -> bytes:
    rest = number << 1 ^ number >> 63
    out = bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    return bytes((*out, rest))
