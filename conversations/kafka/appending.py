"""Appending a few records to one of the namespace's own topics: its catalog, its events."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import KafkaError

from conversations.config import Kafka
from conversations.errors import LogError
from conversations.kafka.clients import REQUEST_TIMEOUT, make_producer
from conversations.kafka.failures import describe


def append(kafka: Kafka, topic: str, records: Sequence[tuple[bytes, bytes]]) -> None:
    """Append keys and values to the first partition of a topic and wait until they are kept.

    Raises:
        LogError: Kafka did not take them.
    """
    if not records:
        return
    failed: list[KafkaError] = []
    producer = make_producer(kafka, {"message.timeout.ms": int(REQUEST_TIMEOUT * 1000)})
    for key, value in records:
        producer.produce(topic, value, key, 0, lambda error, _: failed.append(error) if error is not None else None)
    producer.flush(REQUEST_TIMEOUT + 1)
    if failed:
        raise LogError(f"{topic} cannot be written: {describe(failed[0])}")
