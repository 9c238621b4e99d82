"""Records of shared topics that are not what they should be: named, counted and left out, so that the rest can be read."""

from __future__ import annotations

import logging

log = logging.getLogger("conversations.ops")


class LeftOut:
    """Counts what one reading leaves out, and warns about it once."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self.count = 0
        self._first = ""

    def add(self, place: str, why: object) -> None:
        """Note one: where it stands in the topic, and why it is left out."""
        self._first = self._first or f"{place}: {why!s:.300}"
        self.count += 1

    def tell(self) -> None:
        """Warn, naming the first."""
        if self.count:
            many = "a record is" if self.count == 1 else f"{self.count} records are"
            log.warning("%s: %s not understood and left out; the first, %s", self._topic, many, self._first)


def place_of(partition: int, offset: int) -> str:
    """Say where a record stands in its topic."""
    return f"partition {partition} offset {offset}"
