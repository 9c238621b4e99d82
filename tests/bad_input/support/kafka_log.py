"""A namespace on a real Kafka, into which tests write bad records."""

from collections.abc import Sequence
from time import monotonic, time_ns
from typing import Any, cast
from uuid import uuid4

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported at run time, not in its types
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)

from conversations.config import Kafka
from conversations.kafka.admin import apply
from conversations.ports import Record
from conversations.protocol.declarations import ServiceDeclaration
from conversations.protocol.topics import INPUTS
from tests.bad_input.support.forging import Forged
from tests.bad_input.support.logs import Place
from tests.bad_input.support.services import PARTITIONS, shop, web

PATIENCE = 90.0
LARGE = 300_000_000


class KafkaPlace(Place):
    """A new namespace on a real Kafka. Records are appended by a producer that compresses, as any program's producer may.

    Args:
        bootstrap: addresses of some brokers.
        services: services of the namespace; by default the two services of ``tests.bad_input.support.services``.
        older: True gives the topics the settings of an older release, with which the broker's limit counts compressed bytes.
    """

    def __init__(
        self, bootstrap: str, services: Sequence[ServiceDeclaration] | None = None, *, older: bool = True
    ) -> None:
        self.namespace = f"bad{uuid4().hex[:10]}"
        self.kafka = Kafka(bootstrap, namespace=self.namespace)
        apply(self.kafka, services or [shop().declaration(), web().declaration()], PARTITIONS, 1)
        if older:
            self._take_what_is_small_when_compressed()
        self._producer = _producer(bootstrap, "zstd")

    def now(self) -> int:
        return time_ns() // 1_000

    def _take_what_is_small_when_compressed(self) -> None:
        """Let the broker's limit count compressed bytes, as on topics that an older release created."""
        as_sent = ConfigEntry("compression.type", "producer", incremental_operation=AlterConfigOpType.SET)
        changed = [
            ConfigResource(ConfigResource.Type.TOPIC, self.topic(service, kind), incremental_configs=[as_sent])
            for service in ("shop", "web")
            for kind in INPUTS
        ]
        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap})
        for future in admin.incremental_alter_configs(changed).values():
            future.result()

    def throw(self, service: str, kind: str, records: Sequence[Forged]) -> list[int]:
        return self.throw_to(self.topic(service, kind), records)

    def throw_to(self, topic: str, records: Sequence[Forged]) -> list[int]:
        """Append records to a topic with any name; return their offsets."""
        offsets: list[int] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            assert error is None, error
            offsets.append(cast("int", message.offset()))

        produce: Any = self._producer.produce
        for record in records:
            produce(
                topic,
                record.value,
                record.key,
                record.partition,
                delivered,
                None,
                0,
                record.headers,
            )
            assert self._producer.flush(PATIENCE) == 0
        return offsets

    def throw_compressed(self, service: str, kind: str, record: Forged, codec: str) -> list[int]:
        """Append a record that is compressed with the given codec; return its offset in a list."""
        usual, self._producer = self._producer, _producer(self.kafka.bootstrap, codec)
        try:
            return self.throw(service, kind, [record])
        finally:
            self._producer = usual

    def read(self, topic: str) -> list[Record]:
        """Read the committed records of a topic: every partition to its end."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.kafka.bootstrap,
                "group.id": f"{topic}.reader",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
                "receive.message.max.bytes": LARGE,
                "fetch.max.bytes": LARGE - 1_000,
            }
        )
        try:
            partitions = consumer.list_topics(topic, PATIENCE).topics[topic].partitions
            consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
            return _until_the_end(consumer, len(partitions))
        finally:
            consumer.close()


def _producer(bootstrap: str, codec: str) -> Producer:
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "message.max.bytes": LARGE,
            "compression.type": codec,
            "linger.ms": 0,
            "batch.num.messages": 1,
            "queue.buffering.max.kbytes": 2_000_000,
        }
    )


def _until_the_end(consumer: Consumer, open_partitions: int) -> list[Record]:
    found: list[Record] = []
    deadline = monotonic() + PATIENCE
    while open_partitions:
        assert monotonic() < deadline, "the topic has no end"
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is None:
            found.append(cast("Record", message))
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            open_partitions -= 1
    return found
