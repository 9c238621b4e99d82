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
        """False for a marker, and for a record of an open or aborted transaction. Such a record still has an offset."""

    def topic(self) -> str:
        """Return the topic's name."""
        return self._topic

    def partition(self) -> int:
        """Return the partition's number."""
        return self._partition

    def offset(self) -> int:
        """Return the offset in the partition."""
        return self._offset

    def key(self) -> bytes | None:
        """Return the key, or None."""
        return self._key

    def value(self) -> bytes | None:
        """Return the value, or None for a deletion."""
        return self._value

    def headers(self) -> Headers | None:
        """Return the headers, or None.

        Raises:
            SystemError: a header's name is not UTF-8, so the client for Kafka cannot decode it. In memory, a name with a lone
                surrogate stands for such a name.
            AssertionError: such headers were asked for a second time. The client for Kafka would crash the process.
        """
        if self._headers and not all(map(_is_text, self._headers)):
            if self._asked:
                raise AssertionError(
                    "headers that cannot be read were asked for again: the client for Kafka would crash the process"
                )
            self._asked = True
            raise SystemError("a header's name is not UTF-8")
        return self._headers

    def delivered(self) -> MemoryRecord:
        """Return the record for one reader. If the headers cannot be read, return a copy, so that each reader may ask for them once."""
        if not self._headers or all(map(_is_text, self._headers)):
            return self
        out = Out(self._topic, self._partition, self._key, self._value, self._headers)
        return MemoryRecord(self._topic, self._partition, self._offset, self._at, out, self.visible)

    def timestamp(self) -> tuple[int, int]:
        """Return 2, the code of LogAppendTime, and the log time of the record in milliseconds."""
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
