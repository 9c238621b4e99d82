"""The records of a namespace, copied from Kafka or from a simulation. A test can change them, and use them as the inputs of an audit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from conversations.config import Kafka
from conversations.headers import read_headers
from conversations.kafka.catalog import read_catalog
from conversations.memory.broker import MemoryBroker
from conversations.protocol.topics import DEAD_LETTER, QUEUE, SERVICE_TOPICS, STATE, events_topic, service_topic
from conversations.testing.reading import visible
from spark_jobs.audit.inputs import EXTENT, Inputs, events_of, rules_of
from spark_jobs.audit.state import watched
from spark_jobs.reading.envelopes import decode, judge, writer_schemas
from spark_jobs.reading.integrity import undamaged
from spark_jobs.reading.letters import letters_of
from spark_jobs.reading.rows import history_of
from tests.chaos.checker.reader import read
from tests.chaos.checker.records import Record

RECORD = (
    "topic string, partition int, offset long, timestamp timestamp, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>"
)
Headers = tuple[tuple[str, bytes | None], ...]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Topics:
    """All committed records of a namespace; ``services`` has the entries of its catalog."""

    def __init__(self, namespace: str, services: Mapping[str, Mapping[str, Any]], records: list[Record]) -> None:
        self.namespace, self.services, self.records = namespace, dict(services), records
        self.far: frozenset[str] = frozenset()
        """Names of the services on another cluster than the others."""
        self.cut: dict[tuple[str, int], int] = {}
        """First offset of each partition whose beginning Kafka has deleted after the retention time."""

    def name(self, service: str, kind: str) -> str:
        return service_topic(self.namespace, service, kind)

    def of(self, service: str, kind: str) -> list[Record]:
        return [record for record in self.records if record.topic == self.name(service, kind)]

    def append(
        self, topic: str, partition: int, key: bytes | None, value: bytes | None, headers: Headers = ()
    ) -> Record:
        """Append a record to a partition, with the time of the newest record of all."""
        offset = 1 + max((r.offset for r in self.records if (r.topic, r.partition) == (topic, partition)), default=-1)
        made = Record(topic, partition, offset, max(r.timestamp for r in self.records), key, value, headers)
        self.records.append(made)
        return made

    def inputs(self, spark: SparkSession) -> Inputs:
        """Return the inputs that an audit would read from these records while no worker runs."""
        owners = {kind: {self.name(name, kind): name for name in self.services} for kind in SERVICE_TOPICS}
        queues = {topic: (name, self.services[name]["partitions"]) for topic, name in owners[QUEUE].items()}
        writers = writer_schemas({})
        dead_letters = self._frame(spark, owners[DEAD_LETTER])
        return Inputs(
            judge(self._undamaged(spark, owners[QUEUE], writers), queues),
            watched(history_of(self._frame(spark, owners[STATE]), owners[STATE])),
            letters_of(decode(dead_letters, writers), owners[DEAD_LETTER]),
            events_of(self._frame(spark, [events_topic(self.namespace)]), 1 << 62),
            spark.createDataFrame(self._extents(owners), EXTENT),
            rules_of(self.namespace, self.services),
            writers,
        )

    def _undamaged(self, spark: SparkSession, owners: Mapping[str, str], writers: Mapping[bytes, str]) -> DataFrame:
        """Return the decoded records of queues. Each cluster has routes to the services of the other one."""
        near = {topic for topic, name in owners.items() if name not in self.far}
        parts = (
            undamaged(decode(self._frame(spark, topics), writers), far)
            for topics, far in ((near, self.far), (owners.keys() - near, self.services.keys() - self.far))
        )
        return reduce(DataFrame.unionByName, parts)

    def _frame(self, spark: SparkSession, topics: Any) -> DataFrame:
        wanted = set(topics)
        rows = [
            (
                *record[:3],
                _EPOCH + timedelta(milliseconds=record.timestamp),
                *map(_plain, record[4:6]),
                list(record.headers),
            )
            for record in self.records
            if record.topic in wanted
        ]
        return spark.createDataFrame(rows, RECORD)

    def _extents(self, owners: Mapping[str, Mapping[str, str]]) -> list[tuple[object, ...]]:
        ends: dict[tuple[str, int], int] = defaultdict(int)
        for record in self.records:
            place = record.topic, record.partition
            ends[place] = max(ends[place], record.offset + 1)
        return [
            (name, kind, topic, n, self.cut.get((topic, n), 0), ends[topic, n], ends[topic, n], self._oldest(topic, n))
            for kind in (QUEUE, DEAD_LETTER)
            for topic, name in owners[kind].items()
            for n in range(self.services[name]["partitions"])
        ]

    def _oldest(self, topic: str, partition: int) -> int | None:
        if (topic, partition) not in self.cut:
            return None
        times = [it.timestamp for it in self.records if (it.topic, it.partition) == (topic, partition)]
        return min(times) * 1_000 if times else None


def _plain(data: bytes | None) -> bytes | None:
    """Return bytes of no other class. Spark does not take a memoryview or a bytearray for them."""
    return None if data is None else bytes(data)


def topics_of_kafka(kafka: Kafka) -> Topics:
    """Return the records of a namespace on Kafka, read to the end."""
    services = read_catalog(kafka).services
    names = [service_topic(kafka.namespace, name, kind) for name in services for kind in SERVICE_TOPICS]
    log = read(kafka.bootstrap, [*names, events_topic(kafka.namespace)])
    return Topics(kafka.namespace, services, list(log.records))


def topics_of_memory(broker: MemoryBroker, there: MemoryBroker | None = None) -> Topics:
    """Return the visible records of a broker in memory, and of the services of the other cluster."""
    brokers = [broker] if there is None else [broker, there]
    services = {name: {"partitions": count} for it in brokers for name, count in it.services.items()}
    found = [record for it in brokers for record in _records(it)]
    topics = Topics(broker.namespace, services, found)
    topics.far = frozenset() if there is None else frozenset(there.services)
    return topics


def _records(broker: MemoryBroker) -> Iterator[Record]:
    """Yield the visible records of a broker's services, and of its events."""
    names = [service_topic(broker.namespace, name, kind) for name in broker.services for kind in SERVICE_TOPICS]
    for topic in (*names, events_topic(broker.namespace)):
        for record in visible(broker, topic):
            place = topic, record.partition(), record.offset(), record.timestamp()[1]
            headers = read_headers(record.delivered()) or ()  # a damaged name of a header is as good as none
            yield Record(*place, record.key(), record.value(), tuple(headers))
