"""Records on a real Kafka, as a test writes and reads them."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Producer
from confluent_kafka.cimpl import NewTopic

from conversations.config import Kafka
from conversations.kafka.clients import make_admin
from conversations.kafka.restore import read_all
from conversations.protocol.envelope import Envelope, decode, encode
from conversations.protocol.topics import DEAD_LETTER, QUEUE, service_topic
from tests.support.waiting import SLOWER


def create(kafka: Kafka, topic: str) -> None:
    """Create a topic with one partition."""
    admin = make_admin(kafka)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30 * SLOWER)


def values(kafka: Kafka, topic: str) -> list[tuple[str, str]]:
    """Return the committed records of a topic with one partition: key and value as texts."""
    read, _ = read_all(kafka, topic, 0)
    return [(key.decode(), (value or b"").decode()) for key, value in read]


def envelopes(kafka: Kafka, service: str) -> list[Envelope]:
    """Return the envelopes on the queue of a service with one partition."""
    read, _ = read_all(kafka, service_topic(kafka.namespace, service, QUEUE), 0)
    return [decode(value or b"") for _, value in read]


def letters(kafka: Kafka, service: str) -> list[bytes]:
    """Return the values of the dead letters of a service with one partition."""
    read, _ = read_all(kafka, service_topic(kafka.namespace, service, DEAD_LETTER), 0)
    return [value or b"" for _, value in read]


def throw(kafka: Kafka, service: str, *thrown: Envelope) -> list[bytes]:
    """Append envelopes to the queue of a service with one partition. Return their bytes."""
    producer: Any = Producer({"bootstrap.servers": kafka.bootstrap, "enable.idempotence": True})
    appended = []
    for envelope in thrown:
        value = encode(envelope)
        key = envelope.prefix.reply_key.encode()  # both sides have the same key
        producer.produce(service_topic(kafka.namespace, service, QUEUE), value, key, 0)
        appended.append(value)
    assert producer.flush(30 * SLOWER) == 0
    return appended
