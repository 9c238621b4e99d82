"""Notices inputs that stand still: Kafka has records for them, and the consumer gets none.

A consumer asks a broker that it is connected to who leads a partition. The only one may be a leader that was cut off from its cluster
and goes on answering: it says for ever that it leads, and that there is nothing new. Here a client that is made for one question
asks where the inputs end. It chooses its broker anew each time, so that it comes to one that knows better.
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
"""Seconds from one look to the next. An input stands still when it did not move from the look that asked to the one behind the answer."""


class Standstill:
    """Compares where the inputs of a consumer are with where Kafka has their end, without ever waiting for the answer."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._client: AdminClient | None = None
        self._asked: dict[Place, Future[Any]] = {}
        self._last: Mapping[Place, int] = {}
        """Where the inputs were at the last look."""
        self._behind: dict[Place, int] = {}
        """Where inputs were, and Kafka had more."""
        self._due_at = monotonic() + LOOKED_AT

    def due(self) -> bool:
        """Tell whether it is time to look, or an answer may have come."""
        return bool(self._asked) or monotonic() >= self._due_at

    def look(self, positions: Mapping[Place, int]) -> list[Place]:
        """Return the inputs that stand still; to be called when the consumer has nothing at hand.

        Args:
            positions: up to where each input that flows was given out.
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
                continue  # nobody answers, or it may not be asked: others say so
            if end > self._last[place]:
                self._behind[place] = self._last[place]
        self._asked, self._client = {}, None
        self._due_at = monotonic() + LOOKED_AT
