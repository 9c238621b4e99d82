"""Appends records to partition 0 of a topic for a while, and reads back what it and other programs append, so that the log decides who was first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Self

from conversations.config import Kafka
from conversations.errors import LogError
from conversations.kafka.appending import Appender
from conversations.kafka.follow import Follower
from conversations.ports import Record

PATIENCE = 30.0
"""Seconds that a record which was appended may take to be read back."""


class Pen(Appender):
    """Appends to a topic, and reads it back. Use it in a ``with`` block.

    Args:
        kafka: the cluster.
        topic: name of the topic.
        read: called with the records that are in the topic, in their order, when they are read.
        since: offset at which the reading begins.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: the topic cannot be read.
    """

    def __init__(self, kafka: Kafka, topic: str, read: Callable[[Sequence[Record]], None], since: int) -> None:
        super().__init__(kafka, topic)
        self._read = read
        self._read_to = -1
        """Offset of the last record that was read."""
        self._follower = Follower(kafka, [topic], {(topic, 0): since})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        try:
            self.flush()
        finally:
            self._follower.close()

    def read_back(self) -> None:
        """Read everything up to the last record that this object has appended.

        Raises:
            LogError: the topic cannot be read, or this takes too long.
        """
        deadline = monotonic() + PATIENCE
        while self._read_to < self.last:
            if monotonic() > deadline:
                raise LogError(f"{self._topic}: a record was not read back in {PATIENCE:g} s")
            if found := self._follower.poll(0.1):
                self._read(found)
                self._read_to = found[-1].offset() or 0
