"""Notices inputs that stand still: Kafka has more records, but the consumer gets none.

A consumer asks a connected broker for the leader of a partition. The only connected broker may be an old leader that is cut off
from the cluster. This broker still answers that it is the leader and that there are no new records. So this module asks for the ends of
the inputs with a new client each time. The clients begin at the bootstrap servers in turn, and all servers but one know the new leader.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from random import randrange
from time import monotonic

from conversations.config import Kafka
from conversations.config_checks import addresses_of
from conversations.kafka.clients import one_server
from conversations.kafka.offsets import Offsets, Place, ask_decided

LOOKED_AT = 10.0
"""Seconds between two checks. An input stands still if Kafka had more records at one check, and the next check finds the same position."""


class Standstill:
    """Compares the positions of a consumer's inputs with the ends that Kafka has. It never waits for an answer."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._asked: Future[Offsets] | None = None
        self._last: Mapping[Place, int] = {}
        """Positions of the inputs at the last check."""
        self._behind: dict[Place, int] = {}
        """Positions of the inputs for which Kafka had more records."""
        self._due_at = monotonic() + LOOKED_AT
        self._turn = randrange(len(addresses_of(kafka.bootstrap)))

    def due(self) -> bool:
        """Return True if it is time for a check, or if answers may have come."""
        return self._asked is not None or monotonic() >= self._due_at

    def look(self, positions: Mapping[Place, int]) -> list[Place]:
        """Return the inputs that stand still. Call this when ``poll`` has returned no records.

        Args:
            positions: next offset of each input that is not paused.
        """
        if self._asked is not None:
            if self._asked.done():
                self._take_answers(self._asked.result())
            return []
        still = [place for place, before in self._behind.items() if positions.get(place) == before]
        quiet = [place for place, at in positions.items() if self._last.get(place) == at]
        self._last, self._behind, self._due_at = positions, {}, monotonic() + LOOKED_AT
        if quiet and not still:
            self._asked = ask_decided(one_server(self._kafka, self._turn), quiet)
            self._turn += 1
        return still

    def _take_answers(self, ends: Offsets) -> None:
        # A partition without an answer is left out: other calls report that no broker answers, or that a right is missing.
        self._behind = {place: self._last[place] for place, end in ends.items() if end > self._last[place]}
        self._asked = None
        self._due_at = monotonic() + LOOKED_AT
