"""One record of a log in memory."""

from __future__ import annotations

from conversations.ports import Headers, Out


class MemoryRecord:
    """One record; the methods are those of a confluent-kafka message."""

    __slots__ = ("_at", "_headers", "_key", "_offset", "_partition", "_topic", "_value", "visible")

    def __init__(self, topic: str, partition: int, offset: int, at: int, out: Out, visible: bool = True) -> None:
        self._topic = topic
        self._partition = partition
        self._offset = offset
        self._at = at
        self._key = out.key
        self._value = out.value
        self._headers = out.headers
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
        """Headers, if any."""
        return self._headers

    def timestamp(self) -> tuple[int, int]:
        """(2, LogAppendTime in milliseconds)."""
        return 2, self._at // 1_000
