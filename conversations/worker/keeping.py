"""How many bytes of which dialogs are kept as rows: what is held behind a gap, what is delayed before a destination."""

from __future__ import annotations


class Kept:
    """Bytes of rows by endpoint, and in all."""

    __slots__ = ("bytes", "of")

    def __init__(self) -> None:
        self.of: dict[bytes, int] = {}
        self.bytes = 0

    def __len__(self) -> int:
        return len(self.of)

    def count(self, own: bytes, size: int) -> None:
        """Account for a row of this size that was written, or deleted when ``size`` is negative."""
        self.bytes += size
        left = self.of.pop(own, 0) + size
        if left > 0:
            self.of[own] = left

    def forget(self, own: bytes) -> None:
        """Account for the deletion of all rows of an endpoint."""
        self.bytes -= self.of.pop(own, 0)


class Delayed(Kept):
    """The same of envelopes that wait for their destination, which are found by it."""

    __slots__ = ("to",)

    def __init__(self) -> None:
        super().__init__()
        self.to: dict[str, dict[bytes, None]] = {}
        """Topics, and the endpoints that have something for them; some of those may have none any more."""

    def add(self, own: bytes, topic: str, size: int) -> None:
        """Account for a row that was written."""
        self.count(own, size)
        self.wait(own, topic)

    def wait(self, own: bytes, topic: str) -> None:
        """Let an endpoint wait for a topic."""
        self.to.setdefault(topic, {})[own] = None
