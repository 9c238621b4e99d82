"""Appends a few records to one partition of a topic, for example to the catalog."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import KafkaError, KafkaException

from conversations.config import Kafka
from conversations.errors import LogError, LoginRefused
from conversations.kafka.clients import REQUEST_TIMEOUT, make_producer
from conversations.kafka.failures import describe, producer_forbidden
from conversations.kafka.logins import refused_login


def append(kafka: Kafka, topic: str, records: Sequence[tuple[bytes, bytes]]) -> None:
    """Append keys and values to partition 0 of a topic, and wait until Kafka has acknowledged all of them.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: Kafka refused the records. If a right is missing, the message names it.
    """
    if not records:
        return
    failed: list[KafkaError] = []
    producer = make_producer(kafka, {"message.timeout.ms": int(REQUEST_TIMEOUT * 1000)})
    try:
        for key, value in records:
            producer.produce(topic, value, key, 0, lambda error, _: failed.append(error) if error is not None else None)
        left = producer.flush(REQUEST_TIMEOUT + 1)
    except (KafkaException, SystemError) as failure:
        # After a fatal error of the producer, the client raises KafkaException, or SystemError caused by KafkaException.
        found = failure if isinstance(failure, KafkaException) else failure.__cause__
        raise _refusal(kafka, topic, found.args[0] if isinstance(found, KafkaException) else None) from failure
    if failed or left:
        raise _refusal(kafka, topic, failed[0] if failed else None)


def _refusal(kafka: Kafka, topic: str, error: KafkaError | None) -> LogError:
    if error is None:
        return LogError(f"{topic} cannot be written: the client gives no reason")
    if producer_forbidden(error):
        return LogError(f"{topic} cannot be written: the right WRITE on topic {topic} is missing ({error.name()})")
    if error.code() == KafkaError._MSG_TIMED_OUT and (why := refused_login(kafka)):  # noqa: SLF001 - librdkafka's own
        return LoginRefused(kafka.bootstrap, why)
    return LogError(f"{topic} cannot be written: {describe(error)}")
