"""A member of a service's group that records what it is told, and small things around it."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined] # the package has no list of its names
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)

from conversations.config import Kafka
from conversations.kafka.connection import KafkaConnection
from conversations.kafka.restore import KafkaRestore
from conversations.ports import Out, Positions, Record
from conversations.protocol.topics import service_topic
from tests.support import waiting

PARTITIONS = 4
START = Positions(None, None)
until = partial(waiting.until, seconds=40, pause=0)


def topic(kafka: Kafka, kind: str, service: str = "orders") -> str:
    return service_topic(kafka.namespace, service, kind)


def fill(kafka: Kafka, name: str, values: Sequence[bytes], partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for value in values:
        producer.produce(name, value, b"k", partition)
    assert producer.flush(10) == 0


def delete_topics(kafka: Kafka) -> None:
    """Delete every topic of a namespace: a broker that tests share would carry thousands of them."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    names = [name for name in admin.list_topics(timeout=10).topics if name.startswith(f"{kafka.namespace}.")]
    for future in admin.delete_topics(names).values() if names else ():
        future.exception()  # it may be gone already


def delete_topic(kafka: Kafka, name: str) -> None:
    """Delete a topic."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})  # the future needs it until its result is there
    admin.delete_topics([name])[name].result()


def set_topic(kafka: Kafka, name: str, setting: str, value: str) -> None:
    """Change a setting of a topic."""
    change = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[change])
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.incremental_alter_configs([resource])[resource].result()


def restored(restore: KafkaRestore) -> list[tuple[bytes, bytes | None]]:
    rows: list[tuple[bytes, bytes | None]] = []
    until(lambda: _advance(restore, rows))
    restore.close()
    return rows


def _advance(restore: KafkaRestore, rows: list[tuple[bytes, bytes | None]]) -> bool:
    slice_ = restore.advance(1000)
    rows += slice_.rows
    return slice_.done


class Member:
    """One worker's log with a listener that keeps books."""

    def __init__(self, kafka: Kafka, service: str = "orders", **options: Any) -> None:
        self.kafka = kafka
        self.connection = KafkaConnection(kafka, service, **options)
        self.owned: set[int] = set()
        self.told: list[tuple[str, list[int]]] = []
        self.got: list[Record] = []
        self.on_revoked: Callable[[Sequence[int]], object] = lambda _: None

    def join(self) -> "Member":
        self.connection.join(self)
        return self

    def assigned(self, partitions: Sequence[int]) -> None:
        self.owned |= set(partitions)
        self.told.append(("assigned", list(partitions)))

    def revoked(self, partitions: Sequence[int]) -> None:
        self.told.append(("revoked", list(partitions)))
        self.on_revoked(partitions)
        self.owned -= set(partitions)

    def lost(self, partitions: Sequence[int]) -> None:
        self.told.append(("lost", list(partitions)))
        self.owned -= set(partitions)

    def poll(self, timeout: float = 0.05) -> Sequence[Record]:
        records = self.connection.poll(timeout, 1000)
        self.got += records
        return records

    def owns(self, count: int) -> "Member":
        """Poll until ``count`` partitions are owned."""
        until(lambda: (self.poll(), len(self.owned) == count)[1])
        return self

    def values(self, kind: str | None = None) -> list[bytes | None]:
        return [r.value() for r in self.got if kind is None or r.topic().endswith(kind)]

    def awaits(self, *values: bytes) -> None:
        """Poll until each of these values came."""
        until(lambda: (self.poll(), set(values) <= set(self.values()))[1])

    def state(self, key: bytes, value: bytes | None, partition: int = 0) -> Out:
        return Out(topic(self.kafka, "state"), partition, key, value)
