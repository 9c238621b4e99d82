"""Reads the decisions of operators for the partitions that a worker has open, with a consumer of its own.

librdkafka keeps the records that it has fetched in one queue for each consumer. With one consumer for all inputs, a decision would wait behind
all messages and commands that are fetched already: there may be hundreds of thousands of them just when an operator turns a queue off.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from conversations.config import Kafka
from conversations.errors import InputLost, LogError
from conversations.kafka import rights
from conversations.kafka.clients import close_reader, log, make_consumer, translated
from conversations.kafka.failures import describe, harmless_to_readers, input_gone
from conversations.kafka.input_offsets import InputOffsets
from conversations.ports import Record

SAFE = {"isolation.level": "read_committed", "enable.partition.eof": True}
PREFERRED = {"fetch.min.bytes": 1, "fetch.wait.max.ms": 500, "queued.max.messages.kbytes": 4_096}
LOOK_EVERY = 0.02
"""Seconds between two looks for decisions. A look costs some microseconds, and a busy worker polls thousands of times a second."""
_failed = Message.error


class DecisionsInput:
    """The decisions of the open partitions.

    Its consumer has the name of the worker's group, for which the worker has the rights, and never joins it: the owner of a queue partition also
    owns its decisions.
    """

    def __init__(self, kafka: Kafka, topic: str, group: str) -> None:
        self._kafka, self._topic, self._group = kafka, topic, group
        self._consumer: Consumer | None = None
        """None until the first partition is open."""
        self._offsets = InputOffsets()
        self._look_at = 0.0

    def open(self, partition: int, offset: int | None) -> None:
        """Start reading a partition at ``offset``, or at the start of its log if ``offset`` is None."""
        if self._consumer is None:
            self._consumer = make_consumer(self._kafka, {**SAFE, "group.id": self._group}, PREFERRED)
        self.drop(partition)  # what was fetched before is not valid for a new position
        place = TopicPartition(self._topic, partition, OFFSET_BEGINNING if offset is None else offset)
        self._consumer.incremental_assign([place])
        self._offsets.begin((self._topic, partition), offset)

    def drop(self, partition: int) -> None:
        """Stop reading a partition."""
        place = self._topic, partition
        if self._consumer is not None and place in self._offsets:
            self._offsets.forget(place)
            self._consumer.incremental_unassign([TopicPartition(*place)])

    def pause(self, partition: int) -> None:
        """Read no more records of a partition."""
        place = self._topic, partition
        if self._consumer is not None and place in self._offsets:
            self._offsets.pause(place)
            self._consumer.pause([TopicPartition(*place)])

    def resume(self, partition: int) -> None:
        """Read a partition again, after the last record that ``poll`` returned."""
        place = self._topic, partition
        if self._consumer is not None and place in self._offsets:
            self._offsets.resume(place)
            self._consumer.resume([TopicPartition(*place)])

    def poll(self, limit: int) -> tuple[Sequence[Record], list[LogError]]:
        """Return at most ``limit`` decisions that have arrived, and the errors. It never waits. Without a limit above 0, it does nothing.

        Raises:
            LogError: the consumer failed.
        """
        if self._consumer is None or limit < 1 or (now := monotonic()) < self._look_at:
            return (), []
        self._look_at = now + LOOK_EVERY
        try:
            batch = self._consumer.consume(limit, 0)
        except KafkaException as failure:
            raise translated(self._kafka, "polling for decisions failed", failure) from failure
        errors: list[LogError] = []
        if any(map(_failed, batch)):
            batch = self._without_errors(batch, errors)
        return cast("list[Record]", batch), errors

    def read_to(self, partition: int) -> int:
        """Return the offset at which the end of a partition was last reached, or 0."""
        return self._offsets.end((self._topic, partition))

    def positions(self) -> dict[tuple[str, int], int]:
        """Return the next offset of each partition that is not paused."""
        return {} if self._consumer is None else self._offsets.positions(self._consumer)

    def close(self) -> None:
        """Stop reading."""
        consumer, self._consumer = self._consumer, None
        self._offsets = InputOffsets()
        if consumer is not None:
            close_reader(consumer)

    def _without_errors(self, batch: list[Message], errors: list[LogError]) -> list[Message]:
        good = []
        for message in batch:
            error, partition = message.error(), message.partition()
            if error is None:
                good.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's name
                if partition is not None:
                    self._offsets.reach_end((self._topic, partition), message.offset() or 0)
            elif input_gone(error) and partition is not None and (self._topic, partition) in self._offsets:
                errors.append(InputLost(partition, f"{message.topic()}: {describe(error)}"))
            elif harmless_to_readers(error) or input_gone(error):
                log.info("Kafka reports an error, and librdkafka recovers by itself: %s", describe(error))
            else:
                need = rights.told(error, topic=self._topic)
                errors.append(LogError(f"reading {self._topic} failed{need}: {describe(error)}"))
        return good
