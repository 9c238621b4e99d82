"""The contract on a real Kafka, and on RocksDB."""

import uuid
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from conversations.config import Kafka
from conversations.kafka.admin import apply
from conversations.kafka.connection import KafkaConnection
from conversations.ports import Connection, Stores
from conversations.protocol.declarations import ServiceDeclaration
from conversations.protocol.topics import service_topic
from conversations.stores.rocksdb import RocksStores
from tests.bad_input.support import raw_headers
from tests.contracts.connection_contract import PARTITIONS, ConnectionContract, Member, StoreContract, World
from tests.integration.support.plain_topics import create_topic


class KafkaWorld(World):
    def __init__(self, kafka: Kafka) -> None:
        self.kafka = kafka
        apply(kafka, [ServiceDeclaration("orders"), ServiceDeclaration("billing")], PARTITIONS, 1)

    def connect(self, service: str = "orders") -> Connection:
        return KafkaConnection(self.kafka, service)

    def connect_mortal(self) -> Connection:
        settings = {"max.poll.interval.ms": 4000}
        return KafkaConnection(Kafka(self.kafka.bootstrap, namespace=self.kafka.namespace, settings=settings), "orders")

    def give_up_on(self, member: Member) -> None:
        """Time does: the heir waits for it."""

    def append(self, kind: str, partition: int, *values: bytes) -> None:
        producer = Producer({"bootstrap.servers": self.kafka.bootstrap})
        for value in values:
            producer.produce(self.topic(kind), value, b"k", partition)
        assert producer.flush(10) == 0

    def append_unreadable(self, kind: str, partition: int) -> None:
        raw_headers.produce(self.kafka.bootstrap, (self.topic(kind), partition), b"k", b"v", [(b"\xff\xfe", b"x")])

    def create_plain(self, topic: str, partitions: int) -> None:
        create_topic(self.kafka, topic, partitions)

    def read(self, service: str, kind: str, partition: int) -> list[bytes]:
        return self.read_topic(self.topic(kind, service), partition)

    def read_topic(self, topic: str, partition: int) -> list[bytes]:
        consumer = Consumer({
            "bootstrap.servers": self.kafka.bootstrap, "group.id": uuid.uuid4().hex, "enable.partition.eof": True,
            "enable.auto.commit": False,
        })  # fmt: skip
        try:
            consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
            found: list[bytes] = []
            while True:
                message = consumer.poll(10)
                assert message is not None, "neither a record nor the end"
                if message.error() is not None:
                    return found
                found.append(message.value() or b"")
        finally:
            consumer.close()

    def create(self, service: str, partitions: int) -> None:
        apply(self.kafka, [ServiceDeclaration(service)], partitions, 1)

    def topic(self, kind: str, service: str = "orders") -> str:
        return service_topic(self.kafka.namespace, service, kind)


@pytest.mark.kafka
class TestKafkaConnection(ConnectionContract):
    @pytest.fixture
    def world(self, kafka_bootstrap: str) -> World:
        return KafkaWorld(Kafka(kafka_bootstrap, namespace=f"c{uuid.uuid4().hex[:8]}"))


class TestRocksStore(StoreContract):
    @pytest.fixture
    def stores(self, tmp_path: Path) -> Stores:
        return RocksStores(tmp_path)
