"""What all partitions of one worker share: the service, its settings, the lock, where records go, the counts."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from datetime import timedelta
from random import Random
from typing import Any

from conversations.config import Periods, WorkerSettings
from conversations.handlers import Side
from conversations.hosts import Watcher
from conversations.ports import Clock, Connection, Produced, Record
from conversations.protocol.identifiers import RANDOM_BITS, uuid7
from conversations.service import Service
from conversations.worker.brakes import Brakes
from conversations.worker.breakdowns import Breakdowns
from conversations.worker.budget import Budget
from conversations.worker.counts import Counts
from conversations.worker.destinations import Destinations
from conversations.worker.log_clock import LogClock
from conversations.worker.stage import Stage
from conversations.worker.topics import OwnTopics

log = logging.getLogger("conversations.worker")

LOG_APPEND_TIME = 2
"""The kind of a record's time that its broker set."""


class Context:
    """Shared by the partitions of a worker; ``lock`` guards every endpoint, lane and flight."""

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
        self.destinations = Destinations(namespace, self._count_partitions, self._look_at_catalog, settings.periods)
        self.stage = Stage()
        """Shared by all workers of a process."""
        self.breakdowns = Breakdowns(service.name, settings.batch)
        self.budget = Budget(clock, settings.limits.step_bytes, settings.step // timedelta(microseconds=1))
        self.brakes = Brakes(settings.brake)
        self.watchers: dict[bytes, Watcher] = {}
        """Requests of this process that wait for what arrives on a conversation."""
        self.topics = OwnTopics(namespace, service.name)
        self._random = random

    @property
    def name(self) -> str:
        """Name of the service."""
        return self.service.name

    @property
    def periods(self) -> Periods:
        """The periods that its settings say."""
        return self.settings.periods

    @property
    def now(self) -> int:
        """Time of this step, microseconds since the epoch."""
        return self.clock.step_time

    @property
    def stamp(self) -> bytes:
        """The same, encoded as envelopes carry it."""
        return self.clock.stamp

    def share(self, stage: Stage) -> None:
        """Share a stage with the other workers of the process, before the first partition comes."""
        self.stage = stage

    def begin_step(self) -> None:
        """Take the time for everything this step does."""
        self.destinations.begin_step()
        if back := self.clock.begin_step():
            self.destinations.turn_back(back)

    def commit(self, outs: Sequence[Produced], offsets: Mapping[int, int]) -> dict[int, int]:
        """Commit, and learn how late it is at most; see ``ports.Connection.commit``."""
        since = self.clock.steady()
        ends = dict(self.connection.commit(outs, offsets))
        self.clock.wrote(self.connection.appended_at(), since)
        return ends

    def reconnect(self, connection: Connection) -> None:
        """Go on over another connection: the old one is closed."""
        self.connection = connection

    def hear(self, records: Sequence[Record]) -> Sequence[Record]:
        """Learn the log time from the records that were read; return it."""
        if records:
            kind, at = records[-1].timestamp()
            if kind == LOG_APPEND_TIME:
                self.clock.heard(at * 1_000)
        return records

    def _count_partitions(self, service: str) -> int | None:
        return self.connection.partitions(service)

    def _look_at_catalog(self) -> None:
        self.connection.look_at_catalog()

    def chance(self) -> float:
        """Draw a number from 0 to 1."""
        return self._random.random()

    def new_conversation(self) -> bytes:
        """Draw a conversation id."""
        return uuid7(self.now, self._random.getrandbits(RANDOM_BITS)).bytes
