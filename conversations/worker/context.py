"""The objects that all partitions of one worker share: service, settings, connection, lock, clock, destinations, counts."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from random import Random
from typing import Any

from conversations.config import Periods, WorkerSettings
from conversations.durations import SECOND
from conversations.errors import InDoubt, Interrupted
from conversations.handlers import Side
from conversations.ports import Clock, Connection, Produced, Record, nothing
from conversations.protocol.identifiers import RANDOM_BITS, uuid7
from conversations.sealing import Seals
from conversations.service import Service
from conversations.worker.brakes import Brakes
from conversations.worker.breakdowns import Breakdowns
from conversations.worker.budget import Budget
from conversations.worker.counts import Counts
from conversations.worker.destinations import Destinations
from conversations.worker.log_clock import LogClock
from conversations.worker.stage import Stage
from conversations.worker.topics import OwnTopics
from conversations.worker.watchers import Watchers
from conversations.writer_schemas import WriterSchemas

log = logging.getLogger("conversations.worker")

LOG_APPEND_TIME = 2
"""The number by which Kafka's client shows that the broker has set a record's timestamp."""


class Context:
    """The objects shared by the partitions of a worker. ``lock`` guards every endpoint, lane and flight."""

    def __init__(
        self,
        service: Service[Any],
        sides: dict[tuple[str, bool], Side],
        connection: Connection,
        clock: Clock,
        *,
        settings: WorkerSettings,
        namespace: str,
        random: Random,
    ) -> None:
        self.service = service
        self.sides = sides
        self.connection = connection
        self.clock = LogClock(clock, settings.clock_off)
        self.settings = settings
        self.lock = threading.RLock()
        self.counts = Counts()
        self.destinations = Destinations(
            namespace,
            self._count_partitions,
            self._look_at_catalog,
            self._cluster_of,
            settings.periods,
            WriterSchemas(self._look_at_catalog, self._schemas_of_catalog),
            None if settings.keys is None else Seals(settings.keys),
        )
        self.stage = Stage()
        """The object that coordinates the partitions under suspicion. All workers of a process share it (``share``)."""
        self.breakdowns = Breakdowns(service.name, settings.batch)
        self.budget = Budget(
            clock, settings.limits.step_bytes, settings.step // timedelta(microseconds=1), settings.limits.flow_bytes
        )
        self.brakes = Brakes(settings.brake)
        self.watchers = Watchers()
        self.topics = OwnTopics(namespace, service.name, service.publishes)
        self._random = random

    @property
    def name(self) -> str:
        """Name of the service."""
        return self.service.name

    @property
    def periods(self) -> Periods:
        """The periods in the worker's settings."""
        return self.settings.periods

    @property
    def now(self) -> int:
        """Time of this step, microseconds since the epoch."""
        return self.clock.step_time

    @property
    def stamp(self) -> bytes:
        """The value of ``now``, encoded as in an envelope."""
        return self.clock.stamp

    def share(self, stage: Stage) -> None:
        """Use one stage together with the other workers of the process; call this before the first partition is assigned."""
        self.stage = stage

    def begin_step(self) -> None:
        """Begin a step, and set the time of the step."""
        with self.lock:
            self.counts.durations.fold()
        self.destinations.begin_step()
        if back := self.clock.begin_step():
            self.destinations.turn_back(back)

    def commit(
        self, outs: Sequence[Produced], offsets: Mapping[int, int], meanwhile: Callable[[], None] = nothing
    ) -> dict[int, int]:
        """Commit, and set the worker's time by the time of the commit in the log. See ``ports.Connection.commit``."""
        since, counts = self.clock.steady(), self.counts
        try:
            ends = dict(self.connection.commit(outs, offsets, meanwhile))
        except Interrupted:
            counts.traffic.count_aborted()
            raise
        except InDoubt:
            counts.traffic.count_in_doubt()
            raise
        counts.durations.commit_took((self.clock.steady() - since) / SECOND)
        self.clock.wrote(self.connection.appended_at(), since)
        return ends

    def reconnect(self, connection: Connection) -> None:
        """Use another connection from now on. The caller has closed the old connection."""
        self.connection = connection

    def hear(self, records: Sequence[Record]) -> Sequence[Record]:
        """Learn the log time from the last of these records; return the records unchanged."""
        if records:
            kind, at = records[-1].timestamp()
            if kind == LOG_APPEND_TIME:
                self.clock.heard(at * 1_000)
        return records

    def _count_partitions(self, service: str) -> int | None:
        return self.connection.partitions(service)

    def _cluster_of(self, service: str) -> str:
        return self.connection.cluster(service)

    def _look_at_catalog(self) -> None:
        self.connection.look_at_catalog()

    def _schemas_of_catalog(self) -> Mapping[str, str]:
        return self.connection.schemas()

    def chance(self) -> float:
        """Return a random number from 0 to 1."""
        return self._random.random()

    def new_conversation(self) -> bytes:
        """Make a new conversation id."""
        return uuid7(self.now, self._random.getrandbits(RANDOM_BITS)).bytes
