"""Reads and writes the fields of commands without fastavro, which takes longer than the rest of a decision (design decision 0004).

The layout comes from the schema itself. What this module does not know, or what breaks a rule of Avro, is left to fastavro and to the registry: they
decide, and say why a record is refused. So this module accepts nothing that they refuse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from conversations.protocol.envelope_run import encode_text, read_text
from conversations.protocol.varint import encode_long, encode_new, read_bytes, read_int, read_long

_TEXT: Final = 0
_LONG: Final = 1
_INT: Final = 2
_BYTES: Final = 3
_BOOLEAN: Final = 4
_FIXED: Final = 5
_ENUM: Final = 6
_INTS: Final = 1 << 31
_SIMPLE = {"string": _TEXT, "long": _LONG, "int": _INT, "bytes": _BYTES, "boolean": _BOOLEAN}

Field: TypeAlias = tuple[str, int, int, tuple[str, ...]]
"""How a field is read and written: its name, its kind, its size if it is fixed, and its symbols if it is an enum."""
Layout: TypeAlias = tuple[Field, ...]


class OtherLayout(Exception):
    """The registry must decode the record, or fastavro must encode it."""


def layout(fields: Sequence[Mapping[str, Any]], names: Mapping[str, Any]) -> Layout | None:
    """Return how the fields of a record are read; None if a field has another record or a list in it. ``names`` has the named types."""
    found = [_field(it["name"], resolved(it["type"], names)) for it in fields]
    known = tuple(it for it in found if it is not None)
    return known if len(known) == len(found) else None


def resolved(kind: Any, names: Mapping[str, Any]) -> Any:
    """Return a type of a schema that ``names`` has under this name; else the type itself."""
    return names.get(kind, kind) if isinstance(kind, str) else kind


def is_bytes(field: Field) -> bool:
    """Return True if a field has bytes of any number."""
    return field[1] == _BYTES


def _field(name: str, kind: Any) -> Field | None:
    match kind:
        case {"type": "fixed"}:
            return name, _FIXED, kind["size"], ()
        case {"type": "enum"}:
            return name, _ENUM, 0, tuple(kind["symbols"])
        case str(simple) | {"type": str(simple)} if simple in _SIMPLE:
            return name, _SIMPLE[simple], 0, ()
        case _:  # a record, a list, a union, or a type that commands do not have
            return None


def read_fields(fields: Layout, value: bytes, at: int) -> tuple[list[Any], int]:
    """Read the fields at ``at``. Return their values and the position behind them.

    Raises:
        OtherLayout: a boolean or an enum has a value that it cannot have, or a fixed field is cut off.
        UndecodableRecord, IndexError, UnicodeDecodeError: the bytes end too early, a number is too long, or a text is not UTF-8.
    """
    found: list[Any] = []
    item: Any
    for _, kind, size, symbols in fields:
        if kind == _TEXT:
            item, at = read_text(value, at)
        elif kind == _LONG:
            item, at = read_long(value, at)
        elif kind == _INT:
            item, at = read_int(value, at)
        elif kind == _BYTES:
            item, at = read_bytes(value, at)
        elif kind == _BOOLEAN:
            if value[at] > 1:
                raise OtherLayout
            item, at = value[at] == 1, at + 1
        elif kind == _FIXED:
            if at + size > len(value):
                raise OtherLayout
            item, at = value[at : at + size], at + size
        else:
            number, at = read_long(value, at)
            if not 0 <= number < len(symbols):
                raise OtherLayout
            item = symbols[number]
        found.append(item)
    return found, at


def read_items(layouts: Sequence[Layout | None], most: int, value: bytes, at: int) -> list[tuple[int, list[Any]]]:
    """Read the list that ends the record: the number of each item's layout in the union ``layouts``, and the values of its fields.

    Raises:
        OtherLayout: there are more than ``most`` items, or the list is in several blocks, or an item has no layout, or bytes follow the list.
        UndecodableRecord, IndexError, UnicodeDecodeError: as ``read_fields``.
    """
    found: list[tuple[int, list[Any]]] = []
    count, at = read_long(value, at)
    if not 0 <= count <= most:
        raise OtherLayout
    for _ in range(count):
        index, at = read_long(value, at)
        fields = layouts[index] if 0 <= index < len(layouts) else None
        if fields is None:
            raise OtherLayout
        values, at = read_fields(fields, value, at)
        found.append((index, values))
    if count and value[at] != 0:
        raise OtherLayout
    if at + (count > 0) != len(value):
        raise OtherLayout
    return found


def write_fields(fields: Layout, record: object) -> bytes:
    """Encode fields. Their values are attributes of ``record``.

    Raises:
        OtherLayout: a value has another type, or is too long.
        OverflowError, UnicodeEncodeError: a number does not fit in 64 bits, or a text has a surrogate.
    """
    found: list[bytes] = []
    for name, kind, size, symbols in fields:
        value: Any = getattr(record, name)
        if kind == _TEXT and isinstance(value, str):
            found.append(encode_text(value))
        elif (kind == _LONG or (kind == _INT and -_INTS <= value < _INTS)) and type(value) is int:
            found.append(encode_new(value))
        elif kind == _BYTES and type(value) is bytes:
            found += (encode_long(len(value)), value)
        elif kind == _BOOLEAN and type(value) is bool:
            found.append(b"\1" if value else b"\0")
        elif kind == _FIXED and type(value) is bytes and len(value) == size:
            found.append(value)
        elif kind == _ENUM and value in symbols:
            found.append(encode_long(symbols.index(value)))
        else:
            raise OtherLayout
    return b"".join(found)


def write_items(layouts: Sequence[Layout | None], items: Sequence[tuple[int, object]]) -> bytes:
    """Encode the list that ends the record: of each item, the number of its layout in the union ``layouts``, and its fields.

    Raises:
        OtherLayout: an item has no layout, or as ``write_fields``.
        OverflowError, UnicodeEncodeError: as ``write_fields``.
    """
    if not items:
        return b"\0"
    found = [encode_long(len(items))]
    for index, item in items:
        fields = layouts[index]
        if fields is None:
            raise OtherLayout
        found += (encode_long(index), write_fields(fields, item))
    found.append(b"\0")
    return b"".join(found)
