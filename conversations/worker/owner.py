"""What all partitions of one worker share: the service, its settings, the lock, where records go, what was counted."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any

from conversations.config import WorkerSettings
from conversations.errors import LogError
from conversations.handlers import Side
from conversations.lanes import Scheduler
from conversations.periods import Periods
from conversations.poison import waits
from conversations.ports import Clock, Log, Produced, Record
from conversations.presence import Watcher
from conversations.protocol.envelope import encode_long
from conversations.protocol.identifiers import RANDOM_BITS, uuid7
from conversations.protocol.sequencing import NONE
from conversations.protocol.topics import (
    COMMANDS,
    DEAD_LETTER,
    QUEUE,
    STATE,
    delay_name,
    events_topic,
    retry_topic,
    service_topic,
)
from conversations.service import Service
from conversations.worker.braking import Braking
from conversations.worker.budget import Budget
from conversations.worker.condemned import Breakdowns
from conversations.worker.log_clock import LogClock
from conversations.worker.suspicion import PROCESS, Stage

log = logging.getLogger("conversations.worker")

LOG_APPEND_TIME = 2
"""The kind of a record's time that its broker set."""
REMEMBERED = 1_000
"""Topics whose last pause is remembered before those that are well again are forgotten."""


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


class Destinations:
    """Where envelopes to other services go, and which topics cannot take any now."""

    def __init__(
        self, namespace: str, count: Callable[[str], int | None], look: Callable[[], None], periods: Periods
    ) -> None:
        self._namespace = namespace
        self._count, self._look = count, look
        self._looked = self._is_sure = False
        self._told: LogError | None = None
        self._first, self._last = periods.blocked_first, periods.blocked_last
        self._known: dict[str, int] = {}
        self.blocked: dict[str, int] = {}
        """Topics that take no records, and when to try again."""
        self._waits: dict[str, tuple[int, int]] = {}

    def partitions(self, service: str) -> int | None:
        """Partition count of a service, None while it is not known."""
        count = self._known.get(service)
        if count is None:
            count = self._count(service)
            if count is not None:
                self._known[service] = count
        return count

    def begin_step(self) -> None:
        """What the catalog says is looked at again when somebody asks: records have been read since."""
        self._looked = False

    def is_invented(self, service: str) -> bool:
        """Say whether no service has the name that a record of this step is from; False while nobody can say.

        A service writes nothing before the catalog names it, so the catalog is right that was read after the record.
        """
        if self.partitions(service) is not None:
            return False
        if not self._looked:
            self._looked = self._is_sure = True
            try:
                self._look()
            except LogError as error:
                self._is_sure = False
                if error is not self._told:  # a catalog that is not asked again for a while says the same
                    log.warning("the catalog cannot be read: dialogs of %r are accepted unseen: %s", service, error)
                self._told = error
        return self._is_sure and self.partitions(service) is None

    def topic(self, service: str) -> str:
        """Queue topic of a service."""
        return service_topic(self._namespace, service, QUEUE)

    def block(self, topic: str, now: int) -> None:
        """Send nothing to a topic for a while: 4, 8, 16, 32, then always 64 seconds, until it has been well for longer."""
        if len(self._waits) >= REMEMBERED and topic not in self._waits:
            self._waits = {name: it for name, it in self._waits.items() if now - it[0] <= 2 * self._last}
        last, wait = self._waits.get(topic, (0, 0))
        wait = self._first if now - last > 2 * self._last else min(2 * wait, self._last)
        self._waits[topic] = (now, wait)
        self.blocked[topic] = now + wait

    def turn_back(self, by: int) -> None:
        """The worker's time was ahead of the log's: pauses end as much earlier."""
        self.blocked = {topic: at - by for topic, at in self.blocked.items()}
        self._waits = {topic: (last - by, wait) for topic, (last, wait) in self._waits.items()}

    def try_again(self, now: int) -> None:
        """Unblock the topics whose pause is over."""
        for topic in [topic for topic, at in self.blocked.items() if at <= now]:
            del self.blocked[topic]


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
        self.failure: BaseException | None = None
        """A bug in a lane's own code, to be raised by the polling thread."""
        self.failed_in = NONE
        """The partition that lane is of."""
        self.watchers: dict[bytes, Watcher] = {}
        """Requests of this process that wait for what arrives on a conversation."""
        self.queue_topic = service_topic(namespace, service.name, QUEUE)
        self.commands_topic = service_topic(namespace, service.name, COMMANDS)
        self.dead_letter_topic = service_topic(namespace, service.name, DEAD_LETTER)
        self.state_topic = service_topic(namespace, service.name, STATE)
        self.events_topic = events_topic(namespace)
        self.retry_prefix = retry_topic(namespace, service.name, "")
        self.retry_topics: list[tuple[int, str]] = []
        """Where messages that wait are shown, with the wait in microseconds, longest first; only topics that there are."""
        self._random = random

    def look_for_retry_topics(self) -> None:
        """Find out which of its retry topics there are; without one its waits are only in the state."""
        named = {
            retry_topic(self.namespace, self.name, delay_name(delay)): delay // timedelta(microseconds=1)
            for delay in waits(self.service.poison)
        }
        found = self.log.existing(list(named))
        if missing := sorted(named.keys() - found):
            log.warning("waits are not shown in %s: run 'conversations apply' for %s", ", ".join(missing), self.name)
        self.retry_topics = sorted(((named[topic], topic) for topic in found), reverse=True)

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

    def fail(self, failure: BaseException, partition: int = NONE) -> None:
        """Note what the polling thread is to raise, and of which partition's lane it is, if of any."""
        self.failure, self.failed_in = failure, partition

    def forgive(self) -> None:
        """What failed is mended."""
        self.failure = None

    def chance(self) -> float:
        """Draw a number from 0 to 1."""
        return self._random.random()

    def new_conversation(self) -> bytes:
        """Draw a conversation id."""
        return uuid7(self.now, self._random.getrandbits(RANDOM_BITS)).bytes
