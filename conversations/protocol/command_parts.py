"""Reads a command from the parts in which it came, one after the other.

    parts     |head, names, size of the body, body ...|... body ...|... body, rest|
    window    |---------------------------------------|            |--------------|   the fields in front of the body and behind it are read here
    body                                       |----------------------------|         is joined past the window, or stays where it is

So the encoding of the whole command is never in memory beside its bodies, of which one may have many megabytes. A body that stays where it is costs nothing: the
parts that have nothing else are not read. What this module cannot read, ``decode_command`` reads from the whole encoding, or refuses: this module accepts nothing
that ``command_fields`` refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from conversations.errors import UndecodableRecord
from conversations.protocol.command_fields import Field, Layout, OtherLayout, is_bytes, read_fields
from conversations.protocol.limits import COMMAND_BYTES
from conversations.protocol.varint import read_long

Join: TypeAlias = Callable[[Iterable[memoryview]], bytes]


class Parts(NamedTuple):
    """The parts of an encoding."""

    sizes: Sequence[int]
    """Bytes of each part."""
    read: Callable[[int], memoryview]
    """Returns the part with a number."""
    join: Join
    """Makes one object of many parts of a body."""


class Staying(NamedTuple):
    """A field of bytes that was not read."""

    start: int
    """Position in the encoding."""
    size: int
    """Bytes of the field."""


class Window:
    """The part of an encoding that is read now. It grows by the next part if a field is not whole."""

    __slots__ = ("_at", "_before", "_next", "_parts", "_staying", "_value")

    def __init__(self, parts: Parts, staying: Callable[[int, int], bool]) -> None:
        self._parts, self._next = parts, 0
        self._staying = staying
        self._value, self._at = b"", 0
        self._before = 0
        """Bytes of the encoding in front of the window."""

    def record(
        self, head: bytes, fields: Layout, layouts: Sequence[Layout | None], most: int
    ) -> tuple[list[Any], list[tuple[int, list[Any]]]]:
        """Read the whole encoding: a head, fields, and a list. Return the values of the fields and the items, as ``read_fields`` and ``read_items`` do.

        A field of bytes in an item is ``Staying`` if ``staying`` says so of the number of the item's layout and the bytes of the field.

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
        if self._at != len(self._value) or self._next != len(self._parts.sizes):
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
            found.append((index, self._fields(fields, index)))
        if count:
            self._end()
        return found

    def _end(self) -> None:
        while self._at == len(self._value):
            self._grow()
        if self._value[self._at] != 0:
            raise OtherLayout
        self._at += 1

    def _fields(self, fields: Layout, index: int = -1) -> list[Any]:
        return [self._bytes(index) if is_bytes(it) else self._field(it) for it in fields]

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

    def _bytes(self, index: int) -> bytes | Staying:
        size = self._long()
        if size < 0:
            raise OtherLayout
        start, end = self._before + self._at, self._at + size
        if index >= 0 and self._staying(index, size):
            self._pass(size)
            return Staying(start, size)
        if end <= len(self._value):
            body, self._at = self._value[self._at : end], end
            return body
        return self._parts.join(self._take(size))

    def _pass(self, size: int) -> None:
        """Pass over the next bytes. If they go on behind the window, the window is the part in which they end. The parts between are not read."""
        left = size - (len(self._value) - self._at)
        if left <= 0:
            self._at += size
            return
        self._leave()
        sizes = self._parts.sizes
        while self._next < len(sizes) and left > sizes[self._next]:
            left -= sizes[self._next]
            self._before += sizes[self._next]
            self._next += 1
        self._value = bytes(self._read())
        if left > len(self._value):
            raise OtherLayout
        self._at = left

    def _take(self, size: int) -> Iterator[memoryview]:
        """Yield the next bytes, which go on behind the window, and let the window be the rest of the last part."""
        rest = memoryview(self._value)[self._at :]
        self._leave()
        yield rest
        size -= len(rest)
        while True:
            part = self._read()
            if size <= len(part):
                self._value, self._at = bytes(part), size
                yield part[:size]
                return
            self._before += len(part)
            size -= len(part)
            yield part

    def _leave(self) -> None:
        self._before, self._value, self._at = self._before + len(self._value), b"", 0

    def _read(self) -> memoryview:
        """Return the next part.

        Raises:
            OtherLayout: there is none.
        """
        if self._next == len(self._parts.sizes):
            raise OtherLayout
        self._next += 1
        return self._parts.read(self._next - 1)

    def _grow(self) -> None:
        rest = self._value[self._at :]
        # Only bodies are longer than a record. So what is not whole by then is no field.
        if len(rest) > COMMAND_BYTES:
            raise OtherLayout
        found = [memoryview(rest), self._read()]
        size = len(found[1])
        # The window doubles, so that many small parts are not copied again and again.
        while size < len(rest) and self._next < len(self._parts.sizes):
            found.append(self._read())
            size += len(found[-1])
        if not size:
            raise OtherLayout
        self._before, self._value, self._at = self._before + self._at, b"".join(found), 0
