"""What has arrived in queues, commands and decisions, to know when services have read it all."""

from __future__ import annotations

import contextlib
from typing import Self

from conversations.config import Kafka
from conversations.errors import LogError
from conversations.kafka.follow import Follower
from conversations.kafka.offsets import Place
from conversations.protocol.topics import INPUTS, service_topic
from tests.chaos.services import LEDGER, TELLER


class Arrivals:
    """Follows the topics that services read; a block."""

    def __init__(self, kafka: Kafka) -> None:
        topics = [service_topic(kafka.namespace, service, kind) for service in (TELLER, LEDGER) for kind in INPUTS]
        self._follower = Follower(kafka, topics)
        self.last: dict[Place, int] = {}
        """The last record of each partition."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._follower.close()

    def look(self) -> None:
        """Take what is new; what cannot be read just now comes later."""
        with contextlib.suppress(LogError):
            for record in self._follower.poll(0):
                self.last[record.topic(), record.partition()] = record.offset()

    def unread(self, read_to: dict[Place, int]) -> list[Place]:
        """Partitions with records behind these positions."""
        return sorted(place for place, offset in self.last.items() if read_to.get(place, 0) <= offset)
