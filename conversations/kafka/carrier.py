"""The carrier of one partition of a transmission topic: appends envelopes on the other cluster, with the position after them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from conversations.config import Kafka
from conversations.errors import LogError
from conversations.kafka.failures import describe, error_in, refuses, too_large
from conversations.kafka.forwarded import key_of
from conversations.kafka.refusing_queues import Refused
from conversations.kafka.transactions import TRANSACTION_TIMEOUT, started_producer
from conversations.ports import Out
from conversations.protocol.topics import forwarded_topic

FENCED = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)  # noqa: SLF001 - librdkafka's own
"""Errors of a carrier whose partition has a later one."""


class There(LogError):
    """The other cluster does not answer, or refuses something."""


class QueuesRefuse(There):
    """Some queues there refuse records. The transaction was aborted.

    Args:
        refused: for each of these queues, what it refuses.
    """

    def __init__(self, refused: Mapping[str, Refused]) -> None:
        self.refused = dict(refused)
        super().__init__("; ".join(f"{queue}: {found.why}" for queue, found in self.refused.items()))


class Fenced(LogError):
    """Another forwarder has the partition now. The consumer group will say so, too."""


class Carrier:
    """Appends the envelopes of one partition of the transmission topic there, with the position after them.

    ``is_careful`` returns True for the name of a queue whose records must not share a batch.
    """

    def __init__(
        self, there: Kafka, topic_id: str, partition: int, is_careful: Callable[[str], bool] = lambda _: False
    ) -> None:
        self._there, self._is_careful = there, is_careful
        self._forwarded = forwarded_topic(there.namespace)
        self.key = key_of(topic_id, partition)
        self._id = f"{self._forwarded}.{topic_id}.{partition}"
        self._producer: Producer | None = None
        self._refused: dict[str, Refused] = {}
        """The queues that have refused a record of the open transaction."""

    def start(self) -> None:
        """Fence the carrier that had the partition before.

        Raises:
            KafkaUnreachable: no broker answered.
            LogError: the transactional id may not be used.
        """
        self._producer = started_producer(self._there, self._id)

    def append(self, outs: Sequence[Out], position: int) -> None:
        """Begin a transaction, and append envelopes and the position after them.

        Raises:
            Fenced: a later carrier of the partition has begun.
            QueuesRefuse: some queues refuse records.
            There: the transaction failed. A new carrier begins at the position that is there.
        """
        producer = self._producer
        assert producer is not None
        self._refused = {}
        with self._told():
            producer.begin_transaction()
            for out in outs:
                self._append(producer, out)
                if self._is_careful(out.topic):
                    producer.flush(TRANSACTION_TIMEOUT)
            told = json.dumps({"next": position, "at": time.time_ns() // 1_000}).encode()
            self._append(producer, Out(self._forwarded, 0, self.key, told, None))

    def commit(self) -> None:
        """Commit the transaction.

        Raises:
            Fenced: a later carrier of the partition has begun.
            QueuesRefuse: some queues refuse records.
            There: the transaction failed, or its outcome is unknown. A new carrier begins at the position that is there.
        """
        assert self._producer is not None
        with self._told():
            self._producer.commit_transaction(TRANSACTION_TIMEOUT)
            self._producer.poll(0)  # serves the delivery reports, which would be kept otherwise

    def _append(self, producer: Producer, out: Out) -> None:
        while True:
            try:
                producer.produce(
                    out.topic, out.value, out.key, out.partition, headers=out.headers, on_delivery=self._delivered
                )
            except BufferError:
                producer.poll(0.1)  # the local queue is full: wait for room
            except KafkaException as failure:
                self._note(out.topic, len(out.value or b""), failure.args[0])
                raise
            else:
                return

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._note(message.topic() or "", len(message), error)

    def _note(self, topic: str, size: int, error: KafkaError) -> None:
        """Note an error that is about a queue, and not about the cluster."""
        if topic in (self._forwarded, "") or topic in self._refused:
            return
        if too_large(error) or refuses(error):
            self._refused[topic] = Refused(describe(error), size if too_large(error) else 0)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Raise what the producer raises as errors of this module."""
        try:
            yield
        except (KafkaException, SystemError) as failure:
            error = error_in(failure)
            if error is not None and error.code() in FENCED:
                raise Fenced(f"another forwarder has a partition of {self._id} now") from failure
            if error is not None and not error.fatal():
                assert self._producer is not None
                self._producer.flush(0)  # serves the delivery reports that have arrived
            if self._refused:
                raise QueuesRefuse(self._refused) from failure
            why = "the producer met a fatal error" if error is None else describe(error)
            raise There(f"envelopes cannot be appended: {why}") from failure

    def close(self) -> None:
        """Forget the producer. The broker or the next carrier aborts an open transaction."""
        self._producer = None
