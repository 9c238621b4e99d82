"""Notices inputs that stand still: Kafka has more records, but the consumer gets none.

A consumer asks a connected broker for the leader of a partition. The only connected broker may be an old leader that is cut off
from the cluster. This broker still answers that it is the leader and that there are no new records. So this module asks for the ends of
the inputs with a new client each time. A new client may choose another broker, which knows the new leader.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from time import monotonic
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from conversations.config import Kafka
from conversations.kafka.clients import make_admin
from conversations.kafka.offsets import Place, answered, list_offset

LOOKED_AT = 10.0
"""Seconds between two checks. An input stands still if Kafka had more records at one check, and the next check finds the same position."""


class Standstill:
    """Compares the positions of a consumer's inputs with the ends that Kafka has. It never waits for an answer."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._client: AdminClient | None = None
        self._asked: dict[Place, Future[Any]] = {}
        self._last: Mapping[Place, int] = {}
        """Positions of the inputs at the last check."""
        self._behind: dict[Place, int] = {}
        """Positions of the inputs for which Kafka had more records."""
        self._due_at = monotonic() + LOOKED_AT

    def due(self) -> bool:
        """Return True if it is time for a check, or if answers may have come."""
        return bool(self._asked) or monotonic() >= self._due_at

    def look(self, positions: Mapping[Place, int]) -> list[Place]:
        """Return the inputs that stand still. Call this when ``poll`` has returned no records.

        Args:
            positions: next offset of each input that is not paused.
        """
        if self._asked:
            if all(future.done() for future in self._asked.values()):
                self._take_answers()
            return []
        still = [place for place, before in self._behind.items() if positions.get(place) == before]
        quiet = [place for place, at in positions.items() if self._last.get(place) == at]
        self._last, self._behind, self._due_at = positions, {}, monotonic() + LOOKED_AT
        if quiet and not still:
            self._client = make_admin(self._kafka)
            self._asked = {place: list_offset(self._client, *place, committed=True) for place in quiet}
        return still

    def _take_answers(self) -> None:
        for place, future in self._asked.items():
            try:
                end = answered(future)
            except KafkaException:
                continue  # no broker answers, or a right is missing; other calls report the failure
            if end > self._last[place]:
                self._behind[place] = self._last[place]
        self._asked, self._client = {}, None
        self._due_at = monotonic() + LOOKED_AT
