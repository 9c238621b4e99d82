"""What all partitions of one worker share: the service, its settings, the lock, where records go, what was counted."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any

from conversations.config import WorkerSettings
from conversations.handlers import Side
from conversations.lanes import Scheduler
from conversations.ports import Clock, Log, Produced, Record
from conversations.presence import Watcher
from conversations.protocol.envelope import encode_long
from conversations.protocol.identifiers import RANDOM_BITS, uuid7
from conversations.service import Service
from conversations.worker.braking import Braking
from conversations.worker.budget import Budget
from conversations.worker.condemned import Breakdowns
from conversations.worker.destinations import Destinations
from conversations.worker.log_clock import LogClock
from conversations.worker.suspicion import PROCESS, Stage
from conversations.worker.topics import OwnTopics

log = logging.getLogger("conversations.worker")

LOG_APPEND_TIME = 2
"""The kind of a record's time that its broker set."""


@dataclass(slots=True)
class Counts:
    """What a worker did since it started."""

    handled: int = 0
    """Messages whose handler finished, or that are ignored by declaration."""
    failures: int = 0
    """Runs of handlers that raised or took too long."""
    duplicates: int = 0
    """Envelopes that had taken effect before."""
    dead_letters: int = 0
    """Records given up on, with their bytes kept."""
    set_aside: int = 0
    """Records that could not be understood, with their bytes kept."""
    commands: int = 0
    begun: int = 0
    """Dialogs begun here as initiator."""
    accepted: int = 0
    """Dialogs begun by others that were accepted."""
    closed: int = 0
    commits: int = 0
    fenced: int = 0


class Owner:
    """Shared by the partitions of a worker; ``lock`` guards every endpoint, lane and flight."""

    def __init__(
        self,
        service: Service[Any],
        sides: dict[tuple[str, bool], Side],
        connection: Log,
        clock: Clock,
        *,
        scheduler: Scheduler,
        settings: WorkerSettings,
        namespace: str,
        random: Random,
    ) -> None:
        self.service = service
        self.name = service.name
        self.sides = sides
        self.log = connection
        self.clock = LogClock(clock, settings.clock_off)
        self.scheduler = scheduler
        self.settings = settings
        self.periods = settings.periods
        self.namespace = namespace
        self.lock = threading.RLock()
        self.counts = Counts()
        self.now = 0
        """Time of this step, microseconds since the epoch."""
        self.stamp = b""
        """The same, encoded as envelopes carry it."""
        self.destinations = Destinations(namespace, self._count_partitions, self._look_at_catalog, self.periods)
        self.look_at_clock()
        self.stage = Stage()
        """Shared by all workers of a process."""
        self.process = PROCESS
        self.breakdowns = Breakdowns()
        self.budget = Budget(clock, settings.limits.step_bytes, settings.step // timedelta(microseconds=1))
        self.braking = Braking(settings.brake)
        self.watchers: dict[bytes, Watcher] = {}
        """Requests of this process that wait for what arrives on a conversation."""
        self.topics = OwnTopics(namespace, service.name)
        self._random = random

    def look_at_clock(self) -> None:
        """Take the time for everything this step does."""
        self.destinations.begin_step()
        before, self.now = self.now, self.clock.now()
        self.stamp = encode_long(self.now)
        if self.now < before:
            self.destinations.turn_back(before - self.now)

    def commit(self, outs: Sequence[Produced], offsets: Mapping[int, int]) -> dict[int, int]:
        """Commit, and learn how late it is at most; see ``ports.Log.commit``."""
        since = self.clock.steady()
        ends = dict(self.log.commit(outs, offsets))
        self.clock.wrote(self.log.appended_at(), since)
        return ends

    def hear(self, records: Sequence[Record]) -> Sequence[Record]:
        """Learn from what was read how late it is at least; return it."""
        if records:
            kind, at = records[-1].timestamp()
            if kind == LOG_APPEND_TIME:
                self.clock.heard(at * 1_000)
        return records

    def _count_partitions(self, service: str) -> int | None:
        return self.log.partitions(service)

    def _look_at_catalog(self) -> None:
        self.log.look_at_catalog()

    def chance(self) -> float:
        """Draw a number from 0 to 1."""
        return self._random.random()

    def new_conversation(self) -> bytes:
        """Draw a conversation id."""
        return uuid7(self.now, self._random.getrandbits(RANDOM_BITS)).bytes
