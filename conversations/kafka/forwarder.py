"""Forwarders: they carry the envelopes of a transmission topic to the queues of another cluster, exactly once and in order.

    here: worker --> <ns>.emea.transmission --forwarder--> there: <ns>.credit.queue, <ns>.forwarded

No transaction spans two clusters. So the position in the transmission topic is kept **there**: a transaction on the other cluster has
the envelopes and the position after them, a record of the compacted topic ``<ns>.forwarded``. Whatever ends a forwarder, the next one
reads the position and goes on behind the last envelope that was appended.

Several forwarders share the partitions of the transmission topic by a consumer group here. The group alone does not keep two of them apart,
because one that stood still may go on with a partition that it has lost. For that, each partition has a **carrier** with a transactional
id of its own there: a new carrier fences the one before it, and only then reads the position.

An envelope for a service that the other cluster does not have is not appended. Its sender keeps it and transmits it again (``retransmission``), so
it arrives when the service is applied there.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from confluent_kafka import KafkaException

from conversations.backoff import Backoff
from conversations.config import Kafka
from conversations.errors import LogError, UndecodableRecord
from conversations.headers import read_headers
from conversations.kafka.carrier import Carrier, Fenced, QueuesRefuse, There
from conversations.kafka.catalog import CatalogReader
from conversations.kafka.clients import Admin, Topic, describe_topics
from conversations.kafka.failures import describe
from conversations.kafka.feed_input import FeedInput
from conversations.kafka.forwarded import position_in
from conversations.kafka.forwarding_report import Carried, Report
from conversations.kafka.offsets import Ends
from conversations.kafka.refusing_queues import RefusingQueues
from conversations.kafka.restore import read_all
from conversations.ports import Headers, Out, Record
from conversations.protocol.envelope import prefix_in
from conversations.protocol.integrity import Damaged, has_checksum
from conversations.protocol.routes import Cluster
from conversations.protocol.topics import (
    QUEUE,
    forwarded_topic,
    forwarders_group,
    partition_of,
    service_topic,
    transmission_topic,
)

log = logging.getLogger("conversations.forwarder")

IDLE = 0.2
"""Maximum number of seconds that a poll waits for an envelope."""
BATCH = 5_000
"""Maximum number of envelopes that are taken at once. Those of one partition share a transaction."""
AT_ONCE = 16
"""Number of transactions, each of another partition, that are committed at the same time."""
BATCH_BYTES = 4_000_000
"""Bytes of envelopes after which no more are taken at once."""
IDLE_CONNECTION = 60_000
"""Milliseconds after which a connection to the other cluster that nothing uses is closed, before a firewall forgets it. The next use opens a new one."""
OUTAGE = (0.25, 8.0)
"""The first and the longest wait, in seconds, before a forwarder that failed begins again."""


class Forwarder:
    """Carries the envelopes for one other cluster. ``run`` works in the thread of its caller, and any thread may call ``stop``.

    Args:
        here: the cluster with the transmission topic.
        cluster: the other cluster, as the catalog here names it.
        there: how to reach the other cluster. Its settings are not those of the cluster here.
    """

    def __init__(self, here: Kafka, cluster: Cluster, there: Kafka) -> None:
        self._here, self._cluster = here, cluster
        # A network between clusters often forgets idle connections without a word.
        there = replace(there, settings={"connections.max.idle.ms": str(IDLE_CONNECTION), **there.settings})
        self._there = there
        self._topic = transmission_topic(here.namespace, cluster.name)
        self._admin = Admin(here)
        self._routes = CatalogReader(here, self._admin)
        self._admin_there = Admin(there)
        self._catalog = CatalogReader(there, self._admin_there)
        self._outage = Backoff(*OUTAGE)
        self._stopping = threading.Event()
        self._again_at = 0.0
        self._left: dict[int, int] = {}
        """For each partition that is not carried for a while, the position that it had."""
        self._refusing = RefusingQueues()
        self._positions_topic = ""
        """The id of the topic of positions there. A cluster that was rebuilt has another one."""
        self._destinations: dict[str, _Destination | None] = {}
        """The queues of the services that the envelopes at hand are for."""
        self.report = Report(here, cluster.name)

    @property
    def carried(self) -> Carried:
        """What the forwarder has done since its start."""
        return self.report.carried

    @property
    def trouble(self) -> str:
        """Why nothing is carried now; empty while all is well."""
        return self.report.trouble

    def stop(self) -> None:
        """Let ``run`` return soon."""
        self._stopping.set()

    def run(self) -> None:
        """Carry until ``stop``. After a failure of one of the clusters, begin again later."""
        while not self._stopping.is_set():
            try:
                self._carry_until_stop()
            except LogError as error:
                self._wait(str(error))
            except KafkaException as failure:
                self._wait(describe(failure.args[0]))
        self.report.close()

    def _wait(self, why: str) -> None:
        self.report.look((), 0)
        self.report.is_away(why)
        self._stopping.wait(self._outage.again())

    def _carry_until_stop(self) -> None:
        topic = self._look()
        inputs = FeedInput(self._here, self._topic, forwarders_group(self._here.namespace, self._cluster.name))
        carriers: dict[int, Carrier] = {}
        commits = ThreadPoolExecutor(AT_ONCE, "commit")
        try:
            inputs.join()
            while not self._stopping.is_set():
                # What fails here is about the other cluster. The forwarder stays in its group, so that everybody sees that it runs.
                try:
                    if inputs.unopened and time.monotonic() >= self._again_at:
                        self._open(topic, inputs, carriers)
                    self._step(inputs, carriers, commits)
                except Fenced as error:
                    log.info("%s", error)
                    self._give_up(inputs, carriers)
                except QueuesRefuse as error:
                    # The envelopes for other queues are carried without delay.
                    self._refusing.note(error.refused)
                    for service, found in self._destinations.items():
                        if found is not None and found.queue in error.refused:
                            self.report.is_refused(service, found.queue, error.refused[found.queue])
                    self._give_up(inputs, carriers)
                    self._again_at = 0.0
                except There as error:
                    self._give_up(inputs, carriers)
                    self.report.is_away(str(error))
        finally:
            commits.shutdown()
            for carrier in carriers.values():
                carrier.close()
            inputs.close()

    def _step(self, inputs: FeedInput, carriers: dict[int, Carrier], commits: Executor) -> None:
        records = inputs.poll(IDLE, BATCH, BATCH_BYTES)
        for gone in carriers.keys() - inputs.positions.keys():
            carriers.pop(gone).close()
        if records:
            self._carry(records, inputs, carriers, commits)
        if inputs.positions:
            self.report.look(inputs.positions, inputs.lag())
        if not inputs.unopened:
            self._outage.over()
            self.report.is_well()

    def _give_up(self, inputs: FeedInput, carriers: dict[int, Carrier]) -> None:
        """Carry nothing for a while. The partitions are opened again after it, at the positions that are there then."""
        self._left = {number: at for number, at in self._left.items() if number in inputs.unopened} | inputs.positions
        inputs.shut()
        while carriers:
            carriers.popitem()[1].close()
        ends = Ends(self._here, [self._topic]).decided()
        self.report.look((), sum(ends[self._topic, number] - at for number, at in self._left.items()))
        self._again_at = time.monotonic() + self._outage.again()
        self._follow_route()

    def _follow_route(self) -> None:
        """Use the address that the catalog here has now for the other cluster. No carrier is open meanwhile."""
        found = self._routes.read().clusters.get(self._cluster.name)
        if found is None or found == self._cluster:
            return
        log.info("cluster %s is at %s now", found.name, found.bootstrap)
        self._cluster = found
        self._there = replace(self._there, bootstrap=found.bootstrap, namespace=found.namespace)
        self._admin_there = Admin(self._there)
        self._catalog = CatalogReader(self._there, self._admin_there)

    def _look(self) -> Topic:
        """Return the transmission topic.

        Raises:
            LogError: it is missing, or may not be read.
        """
        with self._admin.request() as client:
            topic = describe_topics(client, self._here, [self._topic], rights=True)[self._topic]
        if topic is None:
            raise LogError(f"no topic {self._topic!r}: run 'conversations route add'")
        if not topic.may("READ"):
            raise LogError(f"{self._topic} cannot be read: READ on topic {self._topic} is missing")
        return topic

    def _look_there(self) -> None:
        """Check that the topic of positions is there. If it is a new one, forget which queues have refused records.

        The cluster is rebuilt then, and is carried everything again. Nobody transmits again what was acknowledged before, so none of it is left out.

        Raises:
            LogError: it is missing.
        """
        name = forwarded_topic(self._there.namespace)
        with self._admin_there.request() as client:
            topic = describe_topics(client, self._there, [name])[name]
        if topic is None:
            raise LogError(
                f"cluster {self._cluster.name} has no topic {name!r}: add a route for the answers with 'conversations route add' there"
            )
        if topic.id != self._positions_topic:
            self._positions_topic = topic.id
            self._refusing.forget()

    def _open(self, topic: Topic, inputs: FeedInput, carriers: dict[int, Carrier]) -> None:
        """Begin to carry the partitions that the group has assigned.

        Raises:
            There: the other cluster does not answer, or refuses something.
            LogError: this cluster does not answer.
        """
        new = sorted(inputs.unopened)
        with _there():
            self._catalog.read()
            self._look_there()
            for number in new:
                carriers[number] = Carrier(self._there, topic.id, number, self._refusing.is_careful)
                carriers[number].start()
            # The carriers before these ones are fenced, so the positions cannot change any more.
            rows, _ = read_all(self._there, forwarded_topic(self._there.namespace))
        positions = dict(rows)
        firsts = {number: at for (_, number), at in Ends(self._here, [self._topic]).first().items()}
        begin = {number: position_in(positions.get(carriers[number].key)) for number in new}
        for number, at in begin.items():
            if at < firsts[number] and at > 0:
                log.error(
                    "envelopes %d to %d of partition %d of %s were deleted before they were carried: their senders transmit them again",
                    at, firsts[number] - 1, number, self._topic,
                )  # fmt: skip
        inputs.open({number: max(at, firsts[number]) for number, at in begin.items()})
        log.info("%s is carried to %s, partition and offset: %s", self._topic, self._there.bootstrap, begin)

    def _carry(
        self, records: Sequence[Record], inputs: FeedInput, carriers: Mapping[int, Carrier], commits: Executor
    ) -> None:
        """Append the records of each partition in a transaction of its own, and wait until all these transactions are committed."""
        self._destinations.clear()
        self._refusing.begin()
        of_partition = sorted(records, key=lambda it: it.partition())  # stable, so the order of a partition stays
        under_way: list[tuple[list[Record], list[Out], Future[None]]] = []
        for number, those in groupby(of_partition, key=lambda it: it.partition()):
            part = list(those)
            outs = [out for record in part if (out := self._addressed(record)) is not None]
            carriers[number].append(outs, part[-1].offset() + 1)
            # A commit waits for the brokers. Those of several partitions wait at the same time.
            under_way.append((part, outs, commits.submit(carriers[number].commit)))
        wait([it for _, _, it in under_way])
        for part, outs, commit in under_way:
            commit.result()
            inputs.positions[part[0].partition()] = part[-1].offset() + 1
            self.report.count(len(outs), sum(len(out.value or b"") for out in outs), len(part) - len(outs))

    def _addressed(self, record: Record) -> Out | None:
        """Return the record for the queue there; None if it has no destination there, or is damaged."""
        key, value = record.key(), record.value()
        headers = read_headers(record)
        service = "" if headers is None else _service_in(record, headers)
        if not service:
            log.error(
                "record %d of partition %d of %s is damaged and is not carried: its sender transmits it again",
                record.offset(), record.partition(), self._topic,
            )  # fmt: skip
            return None
        if service not in self._destinations:
            self._destinations[service] = self._destination(service)
        found = self._destinations[service]
        if found is None or key is None:
            self.report.is_unknown(service)
            return None
        if not self._refusing.takes(found.queue, len(value or b"")):
            return None
        return Out(found.queue, partition_of(key, found.partitions), key, value, headers)

    def _destination(self, service: str) -> _Destination | None:
        """Return the queue of a service there; None if the service does not live there."""
        count = self._catalog.partitions(service)
        if count is None or self._catalog.cluster(service):
            return None
        return _Destination(service_topic(self._there.namespace, service, QUEUE), count)


class _Destination(NamedTuple):
    queue: str
    partitions: int


@contextmanager
def _there() -> Iterator[None]:
    """Let a failure of this block be one of the other cluster."""
    try:
        yield
    except LogError as error:
        raise There(str(error)) from error
    except KafkaException as failure:
        raise There(describe(failure.args[0])) from failure


def _service_in(record: Record, headers: Headers) -> str:
    """Return the service that an envelope is for; empty if the record is damaged.

    Raises:
        LogError: the record is as its sender wrote it, and cannot be read.
    """
    key, value = record.key(), record.value()
    try:
        return prefix_in(value or b"").to_service
    except UndecodableRecord as error:
        try:
            has_checksum(headers, key, value)
        except Damaged:
            return ""
        at = f"record {record.offset()} of partition {record.partition()} of {record.topic()}"
        raise LogError(f"{at} cannot be read; was it written by a later release? {error}") from error
