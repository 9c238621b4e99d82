"""The clusters of the demo: one Kafka for both services, or a Kafka for each, with forwarders between them."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from conversations.config import Kafka
from conversations.kafka.admin import add_route, apply
from conversations.kafka.follow import Follower
from conversations.kafka.offsets import Place
from conversations.protocol.routes import Cluster
from conversations.protocol.topics import QUEUE, service_topic, transmission_topic
from conversations_ops.broker import EmbeddedBroker
from conversations_ops.broker.process import ServerProcess
from conversations_ops.demo.aircraft_log import aircraft_log
from conversations_ops.demo.failing import DemoFailed, last_words
from conversations_ops.demo.operations import operations

PARTITIONS = 4
HOME, HANGAR = "home", "hangar"
"""Names of the clusters of operations and of aircraft-log, if there are two."""
EACH_WAY = 2
"""Number of forwarders in each direction."""
DATA = ("kafka", "kafka-hangar")
"""Directories of the data of the clusters."""
CARRIED_WITHIN = 60.0
"""Maximum seconds from the end of the workers until every envelope has crossed."""
LOOK_EVERY = 0.5
"""Seconds between two looks at what has crossed."""


@dataclass(frozen=True)
class Clusters:
    """The cluster of each service. With one cluster, both are the same."""

    operations: Kafka
    aircraft_log: Kafka

    @property
    def several(self) -> bool:
        """True if each service has a cluster of its own."""
        return self.operations is not self.aircraft_log

    def of(self, service: str) -> Kafka:
        """Return the cluster of a service."""
        return self.operations if service == operations.name else self.aircraft_log

    def queues(self) -> list[tuple[Kafka, list[str]]]:
        """Return each cluster with the topics of its queues."""
        names = [(it, service_topic(self.of(it).namespace, it, QUEUE)) for it in (operations.name, aircraft_log.name)]
        if self.several:
            return [(self.of(service), [topic]) for service, topic in names]
        return [(self.operations, [topic for _, topic in names])]

    def apply(self) -> None:
        """Create the topics of the services, and the routes if there are two clusters.

        Raises:
            LogError: Kafka refused.
        """
        if not self.several:
            apply(self.operations, [operations.declaration(), aircraft_log.declaration()], PARTITIONS, 1)
            return
        apply(self.operations, [operations.declaration()], PARTITIONS, 1)
        apply(self.aircraft_log, [aircraft_log.declaration()], PARTITIONS, 1)
        for here, service, name in (
            (self.operations, aircraft_log.name, HANGAR),
            (self.aircraft_log, operations.name, HOME),
        ):
            there = self.of(service)
            add_route(here, service, Cluster(name, there.bootstrap, there.namespace, PARTITIONS), 1)


@contextlib.contextmanager
def started(count: int, kept: Path | None) -> Iterator[Clusters]:
    """Start one or two brokers, and create the topics. The data are kept in the directory ``kept``, or not at all.

    Raises:
        BrokerError, LogError: a broker did not start, or Kafka refused.
    """
    with contextlib.ExitStack() as stack:
        brokers = [stack.enter_context(EmbeddedBroker(kept / name if kept else None)) for name in DATA[:count]]
        kafkas = [Kafka(broker.bootstrap) for broker in brokers]
        clusters = Clusters(kafkas[0], kafkas[-1])
        clusters.apply()
        yield clusters


@dataclass(frozen=True)
class Crossing:
    """What has crossed to the queue of a service."""

    service: str
    cluster: str
    sent: int
    """Number of envelopes in the transmission topic."""
    arrived: int
    """Number of records in the queue, without the duplicates that the demo has appended itself."""


class Forwarders:
    """The processes of ``conversations forward``: two in each direction between two clusters, none if there is one cluster."""

    def __init__(self, clusters: Clusters, directory: Path) -> None:
        self._clusters = clusters
        self._ways = [(clusters.operations, HANGAR), (clusters.aircraft_log, HOME)] if clusters.several else []
        self._running: list[tuple[Path, ServerProcess]] = []
        for kafka, cluster in self._ways:
            for number in range(EACH_WAY):
                log = directory / f"forward-{cluster}-{number}.log"
                command = [
                    sys.executable, "-P", "-m", "conversations_ops.cli.app", "forward", cluster, "--bootstrap", kafka.bootstrap,
                    "--namespace", kafka.namespace, "--log-level", "warning", "--json",
                ]  # fmt: skip
                self._running.append((log, ServerProcess(command, log, None)))

    @property
    def count(self) -> int:
        """Number of forwarders that should be running."""
        return len(self._running)

    def kill_one(self) -> int | None:
        """Kill a forwarder to the cluster of aircraft-log with SIGKILL. Return its process id; None if there is no forwarder."""
        if not self._running:
            return None
        _, process = self._running.pop(0)
        process.kill()
        return process.pid

    def check(self) -> None:
        """Check that no forwarder has ended by itself.

        Raises:
            DemoFailed: one has ended.
        """
        for log, process in self._running:
            if process.exit_code is not None:
                raise DemoFailed(f"A forwarder ended by itself with exit code {process.exit_code}.{last_words(log)}")

    def crossed(self, duplicates: list[tuple[Place, int]]) -> list[Crossing]:
        """Wait until every envelope has crossed, or the time is over. Return what has crossed in each direction.

        The workers must have stopped, so that nothing new is sent. ``duplicates`` are the records that the demo has appended itself.

        Raises:
            DemoFailed: a forwarder has ended.
            LogError: a topic cannot be read.
        """
        deadline = time.monotonic() + CARRIED_WITHIN
        while True:
            self.check()
            found = [self._crossing(here, cluster, duplicates) for here, cluster in self._ways]
            if all(it.sent == it.arrived for it in found) or time.monotonic() > deadline:
                return found
            time.sleep(LOOK_EVERY)

    def _crossing(self, here: Kafka, cluster: str, duplicates: list[tuple[Place, int]]) -> Crossing:
        service = aircraft_log.name if cluster == HANGAR else operations.name
        there = self._clusters.of(service)
        queue = service_topic(there.namespace, service, QUEUE)
        own = sum(topic == queue for (topic, _), _ in duplicates)
        sent = _records(here, transmission_topic(here.namespace, cluster))
        return Crossing(service, cluster, sent, _records(there, queue) - own)

    def stop(self) -> None:
        """Stop the forwarders."""
        for _, process in self._running:
            process.stop()


def _records(kafka: Kafka, topic: str) -> int:
    with Follower(kafka, [topic]) as follower:
        return sum(len(part) for part in follower.parts_to_the_end(CARRIED_WITHIN))


@contextlib.contextmanager
def forwarding(clusters: Clusters, directory: Path) -> Iterator[Forwarders]:
    """Run forwarders between the clusters."""
    forwarders = Forwarders(clusters, directory)
    try:
        yield forwarders
    finally:
        forwarders.stop()
