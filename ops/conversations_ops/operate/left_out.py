"""Records that cannot be read: counted, named in a warning, and left out, so that the other records are read."""

from __future__ import annotations

import logging

log = logging.getLogger("conversations.ops")


class LeftOut:
    """Counts the records that one reading leaves out, and warns once."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self.count = 0
        self._first = ""

    def add(self, place: str, why: object) -> None:
        """Note a record: its place in the topic, and the reason."""
        self._first = self._first or f"{place}: {why!s:.300}"
        self.count += 1

    def tell(self) -> None:
        """Warn, and name the first record."""
        if self.count:
            many = "a record is" if self.count == 1 else f"{self.count} records are"
            log.warning("%s: %s not understood and left out; the first, %s", self._topic, many, self._first)


def place_of(partition: int, offset: int) -> str:
    """Write the place of a record in its topic."""
    return f"partition {partition} offset {offset}"
