"""Creates, fills, reads and deletes topics of the benchmark's own broker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

Filling = tuple[str, int, bytes, bytes, list[tuple[str, bytes]] | None]
"""Topic, partition, key, value, headers."""

SLICE = 500
EOF = KafkaError._PARTITION_EOF  # noqa: SLF001 - librdkafka's name
_failed = Message.error


def _admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})


def create(bootstrap: str, topics: Sequence[str], partitions: int, settings: Mapping[str, str] | None = None) -> None:
    """Create topics with one replica, and wait until they exist."""
    admin = _admin(bootstrap)  # kept until its answers are here
    for future in admin.create_topics(
        [NewTopic(topic, partitions, 1, config=dict(settings or {})) for topic in topics]
    ).values():
        future.result()


def drop(bootstrap: str, space: str) -> None:
    """Delete every topic of a run, so that its data does not slow down the next run."""
    admin = _admin(bootstrap)
    topics = [topic for topic in admin.list_topics(timeout=10).topics if topic.startswith((f"{space}.", f"{space}-"))]
    for future in (admin.delete_topics(topics) if topics else {}).values():
        future.result()


def fill(bootstrap: str, records: Iterable[Filling]) -> None:
    """Append records in order and wait until all are durable.

    Raises:
        KafkaException: a record was refused.
    """
    fill_dated(bootstrap, ((0, record) for record in records))


def fill_dated(bootstrap: str, records: Iterable[tuple[int, Filling]]) -> None:
    """Append records in order, each with its time in milliseconds since 1970 (0 for now), and wait until all are durable.

    Raises:
        KafkaException: a record was refused.
    """
    producer = Producer({
        "bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20, "batch.size": 500_000,
        "compression.type": "lz4", "queue.buffering.max.messages": 1_000_000, "log_level": 3,
    })  # fmt: skip
    failures: list[KafkaError] = []
    produce: Any = producer.produce
    for number, (at, (topic, partition, key, value, headers)) in enumerate(records):
        while True:
            try:
                produce(
                    topic,
                    value,
                    key,
                    partition,
                    lambda e, _: failures.append(e) if e else None,
                    timestamp=at,
                    headers=headers,
                )
                break
            except BufferError:
                producer.poll(0.1)
        if number % SLICE == 0:
            producer.poll(0)
    producer.flush()
    if failures:
        raise KafkaException(failures[0])


def read(bootstrap: str, topic: str, partitions: int) -> Iterator[Message]:
    """Read the committed records of a topic, from its start to its present end."""
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": f"{topic}.reader", "isolation.level": "read_committed",
        "enable.partition.eof": True, "enable.auto.commit": False, "auto.offset.reset": "earliest",
        "queued.min.messages": 200_000, "fetch.wait.max.ms": 10,
    })  # fmt: skip
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        ended: set[int | None] = set()
        while len(ended) < partitions:
            for message in consumer.consume(10_000, 0.5):
                if (error := _failed(message)) is None:
                    yield message
                elif error.code() == EOF:
                    ended.add(message.partition())
                else:
                    raise KafkaException(error)
    finally:
        consumer.close()
