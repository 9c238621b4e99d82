"""What a forwarder tells: counts for metrics, why it does not carry now, and events for the events topic of its cluster.

The thread of the forwarder writes. Any thread may read: each value is replaced as a whole.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import NamedTuple

from conversations.config import Kafka
from conversations.errors import LogError
from conversations.kafka.appending import Appender
from conversations.kafka.refusing_queues import Refused
from conversations.protocol.events import (
    ClusterAway,
    ClusterBack,
    ForwarderEvent,
    ForwardingBegan,
    ForwardingEnded,
    NotForwarded,
    encode_tool_event,
)
from conversations.protocol.letters import TEXT_LIMIT
from conversations.protocol.topics import events_topic

log = logging.getLogger("conversations.forwarder")

TOLD = 1_000
"""Number of unknown services that are reported."""


class Carried(NamedTuple):
    """What a forwarder has done since its start."""

    envelopes: int = 0
    transactions: int = 0
    unknown: int = 0
    """Number of envelopes for services that the other cluster does not have."""
    bytes: int = 0
    """Bytes of the envelopes."""
    failures: int = 0
    """Number of times that one of the clusters did not answer, or refused something."""


class Condition(NamedTuple):
    """The present state of a forwarder."""

    partitions: tuple[int, ...] = ()
    lag: int = 0
    """Offsets between the positions and the ends of its partitions. While it cannot carry, the positions are its last ones."""
    last_success: float = 0.0
    """Time of the last transaction, in seconds since 1970; 0 if there was none."""
    away_since: float = 0.0
    """Time since which it cannot carry, in seconds since 1970; 0 while it can."""


class Report:
    """The counts, the condition and the events of one forwarder to a cluster."""

    def __init__(self, here: Kafka, cluster: str) -> None:
        self._here, self._cluster = here, cluster
        self._events: Appender | None = None
        self._unknown: set[str] = set()
        self.carried = Carried()
        self.condition = Condition()
        self.trouble = ""
        """Why nothing is carried now; empty while all is well."""

    def count(self, envelopes: int, size: int, unknown: int) -> None:
        """Count a transaction that is committed on the other cluster."""
        it = self.carried
        self.carried = it._replace(
            envelopes=it.envelopes + envelopes, transactions=it.transactions + 1, unknown=it.unknown + unknown, bytes=it.bytes + size
        )  # fmt: skip
        self.condition = self.condition._replace(last_success=time.time())

    def look(self, partitions: Iterable[int], lag: int) -> None:
        """Note the partitions that are carried now, and how far behind their ends they are. Report what has changed."""
        before, now = set(self.condition.partitions), set(partitions)
        self.condition = self.condition._replace(partitions=tuple(sorted(now)), lag=lag)
        if gone := before - now:
            self._tell(ForwardingEnded(self._cluster, _now(), tuple(sorted(gone))))
        if new := now - before:
            log.info("partitions %s are carried to cluster %s", sorted(new), self._cluster)
            self._tell(ForwardingBegan(self._cluster, _now(), tuple(sorted(new))))

    def is_away(self, why: str) -> None:
        """Note that nothing can be carried. The first time is reported, and each other reason is logged."""
        self.carried = self.carried._replace(failures=self.carried.failures + 1)
        if why != self.trouble:
            log.warning("nothing is carried to cluster %s, it is tried again later: %s", self._cluster, why)
        if not self.condition.away_since:
            self.condition = self.condition._replace(away_since=time.time())
            self._tell(ClusterAway(self._cluster, _now(), why[:TEXT_LIMIT]))
        self.trouble = why

    def is_well(self) -> None:
        """Note that envelopes can be carried."""
        if self.condition.away_since:
            since = int(self.condition.away_since * 1_000_000)
            self.condition = self.condition._replace(away_since=0.0)
            log.info("envelopes are carried to cluster %s again", self._cluster)
            self._tell(ClusterBack(self._cluster, _now(), since))
        self.trouble = ""

    def is_unknown(self, service: str) -> None:
        """Report once that the other cluster does not have a service. Its senders transmit again, so nothing is lost when it is applied there."""
        if service not in self._unknown and len(self._unknown) < TOLD:
            self._unknown.add(service)
            log.error(
                "cluster %s has no service %r: apply it there, or correct the route; its senders try again until the lifetimes of the dialogs end",
                self._cluster, service,
            )  # fmt: skip
            self._tell(NotForwarded(self._cluster, _now(), service[:TEXT_LIMIT]))

    def is_refused(self, service: str, queue: str, found: Refused) -> None:
        """Report once that the queue of a service refuses records. They are left out for a while; their senders transmit them again."""
        if queue in self._unknown or len(self._unknown) >= TOLD:
            return
        self._unknown.add(queue)
        what = f"a record of {found.size} bytes" if found.size else "records"
        log.error(
            "queue %s on cluster %s refuses %s: %s; correct the topic there ('conversations doctor' tells how); "
            "the senders try again until the lifetimes of the dialogs end, and what is for other queues is carried",
            queue, self._cluster, what, found.why,
        )  # fmt: skip
        self._tell(NotForwarded(self._cluster, _now(), service[:TEXT_LIMIT]))

    def close(self) -> None:
        """Report that nothing is carried any more, and wait for the events."""
        self.look((), 0)
        try:
            if self._events is not None:
                self._events.flush()
        except LogError as error:
            log.warning("events of the forwarder are not written: %s", error)
        self._events = None

    def _tell(self, event: ForwarderEvent) -> None:
        """Begin to write an event. A missing right or a cluster that is away stops no forwarder."""
        try:
            if self._events is None:
                self._events = Appender(self._here, events_topic(self._here.namespace))
            self._events.begin([(self._cluster.encode(), encode_tool_event(event))])
        except LogError as error:
            self._events = None
            log.warning("the event %s is not written: %s", event.NAME, error)


def _now() -> int:
    return time.time_ns() // 1_000
