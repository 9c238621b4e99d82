"""Counts unreadable records and warns about them. Readers leave them out, so that the other records can still be read."""

from __future__ import annotations

import logging

log = logging.getLogger("conversations.ops")


class LeftOut:
    """Counts the records that one read of a topic leaves out, and logs one warning."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self.count = 0
        self._first = ""

    def add(self, place: str, why: object) -> None:
        """Count a record that is left out. ``place`` is its place in the topic, and ``why`` is the reason."""
        self._first = self._first or f"{place}: {why!s:.300}"
        self.count += 1

    def tell(self) -> None:
        """Log how many records were left out, with the place and the reason of the first. Log nothing if there were none."""
        if self.count:
            many = "a record is" if self.count == 1 else f"{self.count} records are"
            log.warning("%s: %s not understood and left out; the first, %s", self._topic, many, self._first)


def place_of(partition: int, offset: int) -> str:
    """Write the place of a record in its topic."""
    return f"partition {partition} offset {offset}"
