"""Reads a command from the parts in which it came, one after the other.

    parts     |head, names, size of the body, body ...|... body ...|... body, rest|
    window    |---------------------------------------|                            the fields in front of the body are read in it
    body                                       |----------------------------|      goes into one object, past the window

So the encoding of the whole command is never in memory beside its bodies, of which one may have many megabytes. What this module cannot read, ``decode_command``
reads from the whole encoding, or refuses: this module accepts nothing that ``command_fields`` refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from conversations.errors import UndecodableRecord
from conversations.protocol.command_fields import Field, Layout, OtherLayout, is_bytes, read_fields
from conversations.protocol.limits import COMMAND_BYTES
from conversations.protocol.varint import read_long

Bodies: TypeAlias = list[tuple[int, bytes]]
"""Fields of bytes, and the position of each of them in the encoding."""
Join: TypeAlias = Callable[[Iterable[memoryview]], bytes]


class Window:
    """The part of an encoding that is read now. It grows by the next part if a field is not whole."""

    __slots__ = ("_at", "_before", "_join", "_parts", "_value", "bodies")

    def __init__(self, parts: Iterable[memoryview], join: Join) -> None:
        self._parts, self._join = iter(parts), join
        self._value, self._at = b"", 0
        self._before = 0
        """Bytes of the encoding in front of the window."""
        self.bodies: Bodies = []

    def record(
        self, head: bytes, fields: Layout, layouts: Sequence[Layout | None], most: int
    ) -> tuple[list[Any], list[tuple[int, list[Any]]]]:
        """Read the whole encoding: a head, fields, and a list. Return the values of the fields and the items, as ``read_fields`` and ``read_items`` do.

        Raises:
            OtherLayout: the parts are no such encoding, or it cannot be read in this way.
            UnicodeDecodeError: a text is not UTF-8.
        """
        while len(self._value) < len(head):
            self._grow()
        if not self._value.startswith(head):
            raise OtherLayout
        self._at = len(head)
        values = self._fields(fields)
        items = self._items(layouts, most)
        if self._at != len(self._value) or next(self._parts, None) is not None:
            raise OtherLayout
        return values, items

    def _items(self, layouts: Sequence[Layout | None], most: int) -> list[tuple[int, list[Any]]]:
        found: list[tuple[int, list[Any]]] = []
        count = self._long()
        if not 0 <= count <= most:
            raise OtherLayout
        for _ in range(count):
            index = self._long()
            fields = layouts[index] if 0 <= index < len(layouts) else None
            if fields is None:
                raise OtherLayout
            found.append((index, self._fields(fields)))
        if count:
            self._end()
        return found

    def _end(self) -> None:
        while self._at == len(self._value):
            self._grow()
        if self._value[self._at] != 0:
            raise OtherLayout
        self._at += 1

    def _fields(self, fields: Layout) -> list[Any]:
        return [self._bytes() if is_bytes(it) else self._field(it) for it in fields]

    def _field(self, field: Field) -> Any:
        while True:
            try:
                found, self._at = read_fields((field,), self._value, self._at)
            except (IndexError, UndecodableRecord):
                self._grow()
            else:
                return found[0]

    def _long(self) -> int:
        while True:
            try:
                number, self._at = read_long(self._value, self._at)
            except UndecodableRecord:
                self._grow()
            else:
                return number

    def _bytes(self) -> bytes:
        size = self._long()
        if size < 0:
            raise OtherLayout
        start, end = self._before + self._at, self._at + size
        if end <= len(self._value):
            body, self._at = self._value[self._at : end], end
        else:
            body = self._join(self._take(size))
        self.bodies.append((start, body))
        return body

    def _take(self, size: int) -> Iterator[memoryview]:
        """Yield the next bytes, which go on behind the window, and let the window be the rest of the last part."""
        rest = memoryview(self._value)[self._at :]
        self._before, self._value, self._at = self._before + len(self._value), b"", 0
        yield rest
        size -= len(rest)
        for part in self._parts:
            if size <= len(part):
                self._value, self._at = bytes(part), size
                yield part[:size]
                return
            self._before += len(part)
            size -= len(part)
            yield part
        raise OtherLayout

    def _grow(self) -> None:
        rest = self._value[self._at :]
        # Only bodies are longer than a record. So what is not whole by then is no field.
        if len(rest) > COMMAND_BYTES:
            raise OtherLayout
        found, size = [memoryview(rest)], 0
        for part in self._parts:
            found.append(part)
            size += len(part)
            if size >= len(rest):  # the window doubles, so that many small parts are not copied again and again
                break
        if not size:
            raise OtherLayout
        self._before, self._value, self._at = self._before + self._at, b"".join(found), 0
