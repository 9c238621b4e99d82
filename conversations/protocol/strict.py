"""Checks that bytes are exactly one Avro record, before a decoder trusts them.

fastavro accepts negative indexes of enums and unions (it counts them from the end), any byte as a boolean, and numbers of any length. This
check refuses all of these, and every length that is larger than the rest of the bytes (design decision 0004). It also limits the number of
items in lists, because a list of a million items of one byte would become a million objects in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conversations.errors import UndecodableRecord
from conversations.protocol.varint import read_long

Names = Mapping[str, Any]
_INT = 1 << 31


def check(schema: Any, names: Names, value: bytes, start: int, items: int | None = None) -> None:
    """Check that ``value[start:]`` is exactly one datum of ``schema``, which fastavro has parsed.

    ``items`` is the maximum number of items in all arrays and maps of the datum together. With None, only the number of bytes limits the
    items.

    Raises:
        UndecodableRecord: the datum is truncated, has trailing bytes, has too many items, or breaks a rule of Avro.
    """
    end = _walk(schema, _Names(names, items), value, start)
    if end != len(value):
        raise UndecodableRecord(f"{len(value) - end} trailing bytes after the record's end at byte {end}")


class _Names:
    """The named schemas for one check, and the number of items that the check may still accept."""

    __slots__ = ("by_name", "left", "most")

    def __init__(self, by_name: Names, most: int | None) -> None:
        self.by_name = by_name
        self.most = self.left = most

    def take(self, count: int) -> None:
        """Count items before they are checked one by one."""
        if self.left is None:
            return
        self.left -= count
        if self.left < 0:
            raise UndecodableRecord(f"the lists of the record have more than {self.most} items together")


def _walk(schema: Any, names: _Names, value: bytes, at: int) -> int:
    if isinstance(schema, list):
        index, at = _index(value, at, len(schema), "union")
        return _walk(schema[index], names, value, at)
    if isinstance(schema, str):
        return (
            _primitive(schema, value, at) if schema in _PRIMITIVES else _walk(names.by_name[schema], names, value, at)
        )
    kind = schema["type"]
    if kind in ("record", "error"):
        for field in schema["fields"]:
            at = _walk(field["type"], names, value, at)
        return at
    if kind == "enum":
        return _index(value, at, len(schema["symbols"]), "enum")[1]
    if kind == "fixed":
        return _skip(value, at, schema["size"])
    if kind == "array":
        return _blocks(schema["items"], names, value, at)
    if kind == "map":
        return _blocks({"type": "record", "fields": [{"type": "string"}, {"type": schema["values"]}]}, names, value, at)
    return _walk(kind, names, value, at)


def _blocks(items: Any, names: _Names, value: bytes, at: int) -> int:
    while True:
        count, at = read_long(value, at)
        if not count:
            return at
        if count < 0:
            count, size_at = -count, at
            size, at = read_long(value, at)
            _bounded(size, value, size_at)
        _bounded(count, value, at)
        names.take(count)
        for _ in range(count):
            after = _walk(items, names, value, at)
            if after == at:
                # Items without bytes are refused: with them, a few bytes could demand any amount of work and memory.
                raise UndecodableRecord(f"the block at byte {at} has {count} items without bytes")
            at = after


def _primitive(kind: str, value: bytes, at: int) -> int:
    if kind in ("string", "bytes"):
        size, after = read_long(value, at)
        _bounded(size, value, at)
        return _skip(value, after, size)
    if kind == "long":
        return read_long(value, at)[1]
    if kind == "int":
        number, after = read_long(value, at)
        if not -_INT <= number < _INT:
            raise UndecodableRecord(f"the int at byte {at} is longer than 32 bits")
        return after
    if kind == "boolean" and value[at : at + 1] not in (b"\0", b"\1", b""):
        raise UndecodableRecord(f"the boolean at byte {at} is {value[at]}")
    return _skip(value, at, _PRIMITIVES[kind])


_PRIMITIVES = {"null": 0, "boolean": 1, "float": 4, "double": 8, "int": 0, "long": 0, "string": 0, "bytes": 0}


def _index(value: bytes, at: int, size: int, what: str) -> tuple[int, int]:
    index, after = read_long(value, at)
    if not 0 <= index < size:
        raise UndecodableRecord(f"the {what} at byte {at} has no branch {index}")
    return index, after


def _bounded(size: int, value: bytes, at: int) -> None:
    if size < 0:
        raise UndecodableRecord(f"the length at byte {at} is negative")
    if size > len(value) - at:
        raise UndecodableRecord(
            f"truncated: the length at byte {at} is {size}, but only {len(value) - at} bytes are left"
        )


def _skip(value: bytes, at: int, size: int) -> int:
    if at + size > len(value):
        raise UndecodableRecord(f"truncated: the record has {len(value)} bytes, but at least {at + size} are needed")
    return at + size
