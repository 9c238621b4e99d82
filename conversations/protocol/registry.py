"""The writer schemas that a process can read, by fingerprint, and Avro's single-object encoding.

A record begins with ``MARKER`` and a fingerprint: the CRC-64-AVRO of the Parsing Canonical Form of its writer schema. After the schema of
a later minor version is registered, this process can read records of that version, by Avro's schema resolution (design decision 0004).
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Any, Final

import fastavro
from fastavro.schema import fingerprint as avro_fingerprint
from fastavro.schema import to_parsing_canonical_form

from conversations import schemas
from conversations.errors import UndecodableRecord
from conversations.protocol import strict

MARKER = b"\xc3\x01"
HEAD_SIZE: Final = 10
"""Number of bytes of the marker and the fingerprint."""

_REFUSALS = (
    EOFError, IndexError, KeyError, ValueError, TypeError, AttributeError, OverflowError, MemoryError, RecursionError,
    struct.error,
)  # fmt: skip


class _Memory:
    """A file object with the two methods that fastavro calls. It exists because the protocol must not import ``io``."""

    __slots__ = ("at", "value")

    def __init__(self, value: bytes = b"", at: int = 0) -> None:
        self.value = value
        self.at = at

    def read(self, size: int) -> bytes:
        start = self.at
        self.at = start + size
        return self.value[start : start + size]

    def write(self, data: bytes) -> None:
        self.value += data


class Schema:
    """One parsed schema: its name, its fingerprint, and the head with which every record of this schema begins."""

    __slots__ = ("fingerprint", "head", "items", "name", "names", "parsed")

    def __init__(self, source: dict[str, Any], items: int | None = None) -> None:
        """Parse ``source`` without its logical types, so that timestamps stay integers (microseconds).

        A record that is decoded into this schema may have at most ``items`` items, in all its lists together. None is unlimited.
        """
        parsed: Any = fastavro.parse_schema(_plain(source))
        self.parsed = parsed
        self.names: dict[str, Any] = parsed["__named_schemas"]
        self.name: str = parsed["name"]
        self.fingerprint = fingerprint(source)
        self.items = items
        self.head = MARKER + self.fingerprint

    def encode(self, datum: dict[str, Any]) -> bytes:
        """Encode a record of this schema: head and body.

        Raises:
            ValueError, TypeError, KeyError, OverflowError: ``datum`` does not fit the schema.
        """
        out = _Memory()
        fastavro.schemaless_writer(out, self.parsed, datum)  # type: ignore[arg-type]
        return self.head + out.value


class Registry:
    """Writer schemas by fingerprint. A new registry has every schema of this package.

    A process makes its own registry and adds the schemas of the catalog. ``DEFAULT`` has only the schemas of this package.
    """

    def __init__(self) -> None:
        self._writers = _packaged().copy()

    def register(self, source: dict[str, Any]) -> bytes:
        """Register a writer schema, so that its records can be decoded, and return its fingerprint. A second registration changes nothing.

        Raises:
            ValueError: fastavro refuses the schema.
        """
        try:
            schema = Schema(source)
        except (fastavro.schema.SchemaParseException, *_REFUSALS) as error:
            raise ValueError(f"not an Avro schema: {error!r}") from error
        self._writers.setdefault(schema.fingerprint, schema)
        return schema.fingerprint

    def writer(self, value: bytes) -> Schema:
        """Return the schema with which ``value`` was written.

        Raises:
            UndecodableRecord: ``value`` is too short, has another marker, or has a fingerprint that is not registered.
        """
        if len(value) < HEAD_SIZE:
            raise UndecodableRecord(f"too short: {len(value)} bytes, but the head alone has {HEAD_SIZE} bytes")
        if not value.startswith(MARKER):
            raise UndecodableRecord(f"wrong marker {value[:2].hex()}: not Avro single-object encoding")
        schema = self._writers.get(value[2:HEAD_SIZE])
        if schema is None:
            raise UndecodableRecord(f"unknown schema fingerprint {value[2:HEAD_SIZE].hex()}")
        return schema

    def decode(self, value: bytes, reader: Schema) -> dict[str, Any]:
        """Decode ``value``, of any registered version, into the fields of ``reader``.

        A record in a union becomes a pair of name and fields.

        Raises:
            UndecodableRecord: ``value`` is a record of another type, is broken, or cannot be resolved to ``reader``.
        """
        writer = self.writer(value)
        if writer.name != reader.name:
            raise UndecodableRecord(f"the record is a {writer.name}, not a {reader.name}")
        strict.check(writer.parsed, writer.names, value, HEAD_SIZE, reader.items)
        resolve = None if writer.fingerprint == reader.fingerprint else reader.parsed
        body = _Memory(value, HEAD_SIZE)
        try:
            datum: Any = fastavro.schemaless_reader(
                body,  # type: ignore[arg-type]
                writer.parsed,
                resolve,
                return_record_name=True,
                return_record_name_override=True,
            )
        except fastavro.read.SchemaResolutionError as error:
            why = f"the record, of schema {writer.fingerprint.hex()}, has a value that this version's {reader.name} cannot have"
            raise UndecodableRecord(why) from error
        except _REFUSALS as error:
            raise UndecodableRecord(f"not a {reader.name}: {type(error).__name__}: {str(error)[:200]}") from error
        fields: dict[str, Any] = datum
        return fields


@cache
def _packaged() -> dict[bytes, Schema]:
    """Return every schema of this package by its fingerprint. They are parsed once for all registries of a process."""
    parsed = [
        Schema(schemas.load(name, version)) for name, versions in schemas.VERSIONS.items() for version in versions
    ]
    return {schema.fingerprint: schema for schema in parsed}


def fingerprint(source: dict[str, Any]) -> bytes:
    """Return the CRC-64-AVRO of a schema's Parsing Canonical Form, 8 bytes, little endian."""
    return bytes.fromhex(avro_fingerprint(to_parsing_canonical_form(source), "CRC-64-AVRO"))


def _plain(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_plain(part) for part in schema]
    if isinstance(schema, dict):
        return {key: _plain(part) for key, part in schema.items() if key != "logicalType"}
    return schema


DEFAULT = Registry()
"""The registry with only the schemas of this package."""
