"""One record of a log in memory."""

from __future__ import annotations

from conversations.ports import Headers, Out


class MemoryRecord:
    """One record, with the methods of a confluent-kafka message."""

    __slots__ = ("_asked", "_at", "_headers", "_key", "_offset", "_partition", "_topic", "_value", "visible")

    def __init__(self, topic: str, partition: int, offset: int, at: int, out: Out, visible: bool = True) -> None:
        self._topic = topic
        self._partition = partition
        self._offset = offset
        self._at = at
        self._key = out.key
        self._value = out.value
        self._headers = out.headers
        self._asked = False
        self.visible = visible
        """False for a marker and for a record of a transaction that is open or was aborted: it takes an offset."""

    def topic(self) -> str:
        """Topic name."""
        return self._topic

    def partition(self) -> int:
        """Partition number."""
        return self._partition

    def offset(self) -> int:
        """Offset in the partition."""
        return self._offset

    def key(self) -> bytes | None:
        """Key, if any."""
        return self._key

    def value(self) -> bytes | None:
        """Value, None for a deletion."""
        return self._value

    def headers(self) -> Headers | None:
        """Headers, if any.

        Raises:
            SystemError: a name is not UTF-8 (here: has a lone surrogate), which the client cannot say.
            AssertionError: asked again after that, which ends a process that uses the client.
        """
        if self._headers and not all(map(_is_text, self._headers)):
            if self._asked:
                raise AssertionError("headers that cannot be read were asked for again: the client crashes the process")
            self._asked = True
            raise SystemError("a header's name is not UTF-8")
        return self._headers

    def delivered(self) -> MemoryRecord:
        """Return what one reader gets: a record of its own where it matters how often that is asked."""
        if not self._headers or all(map(_is_text, self._headers)):
            return self
        out = Out(self._topic, self._partition, self._key, self._value, self._headers)
        return MemoryRecord(self._topic, self._partition, self._offset, self._at, out, self.visible)

    def timestamp(self) -> tuple[int, int]:
        """(2, LogAppendTime in milliseconds)."""
        return 2, self._at // 1_000


def _is_text(header: tuple[str, bytes]) -> bool:
    name = header[0]
    if name.isascii():
        return True
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
