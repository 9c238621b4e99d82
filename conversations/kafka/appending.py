"""Appends a few records to one partition of a topic, for example to the catalog."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException, Message

from conversations.config import Kafka
from conversations.errors import LogError, LoginRefused
from conversations.kafka.clients import REQUEST_TIMEOUT, make_producer
from conversations.kafka.failures import describe, error_in, producer_forbidden
from conversations.kafka.logins import refused_login


def append(kafka: Kafka, topic: str, records: Sequence[tuple[bytes, bytes | None]]) -> None:
    """Append keys and values to partition 0 of a topic, and wait until Kafka has acknowledged all of them.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: Kafka refused the records. If a right is missing, the message names it.
    """
    if records:
        Appender(kafka, topic).append(records)


class Appender:
    """Appends to partition 0 of a topic, for as long as it lives."""

    def __init__(self, kafka: Kafka, topic: str) -> None:
        self._kafka, self._topic = kafka, topic
        self._failed: list[KafkaError] = []
        self.last = -1
        """Offset of the last record that Kafka has acknowledged."""
        self._producer = make_producer(kafka, {"message.timeout.ms": int(REQUEST_TIMEOUT * 1000)})

    def append(self, records: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Append records, and return when Kafka has acknowledged all records so far.

        Raises:
            KafkaUnreachable: no broker answered.
            LogError: Kafka refused a record. If a right is missing, the message names it.
        """
        self.begin(records)
        if self.flush() or self._failed:
            raise _refusal(self._kafka, self._topic, self._failed[0] if self._failed else None)

    def begin(self, records: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Begin to append records, without waiting. The next ``append`` tells whether Kafka refused one.

        Raises:
            LogError: the client refused a record.
        """
        with self._refusals():
            for key, value in records:
                self._producer.produce(self._topic, value, key, 0, self._delivered)
                self._producer.poll(0)

    def flush(self) -> int:
        """Wait until Kafka has answered about all records so far, and return the number of records without an answer.

        Raises:
            LogError: the producer cannot go on. If a right is missing, the message names it.
        """
        with self._refusals():
            return self._producer.flush(REQUEST_TIMEOUT + 1)

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            yield
        except (KafkaException, SystemError, BufferError) as failure:
            raise _refusal(self._kafka, self._topic, error_in(failure)) from failure

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed.append(error)
        else:
            self.last = max(self.last, message.offset() or 0)


def _refusal(kafka: Kafka, topic: str, error: KafkaError | None) -> LogError:
    if error is None:
        return LogError(f"{topic} cannot be written: the client gives no reason")
    if producer_forbidden(error):
        return LogError(f"{topic} cannot be written: the right WRITE on topic {topic} is missing ({error.name()})")
    if error.code() == KafkaError._MSG_TIMED_OUT and (why := refused_login(kafka)):  # noqa: SLF001 - librdkafka's own
        return LoginRefused(kafka.bootstrap, why)
    return LogError(f"{topic} cannot be written: {describe(error)}")
