"""The carrier of one partition of a transmission topic: appends envelopes on the other cluster, with the position after them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException, Producer

from conversations.config import Kafka
from conversations.errors import LogError
from conversations.kafka.failures import describe, error_in
from conversations.kafka.forwarded import key_of
from conversations.kafka.transactions import TRANSACTION_TIMEOUT, started_producer
from conversations.ports import Out
from conversations.protocol.topics import forwarded_topic

FENCED = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)  # noqa: SLF001 - librdkafka's own
"""Errors of a carrier whose partition has a later one."""


class There(LogError):
    """The other cluster does not answer, or refuses something."""


class Fenced(LogError):
    """Another forwarder has the partition now. The consumer group will say so, too."""


class Carrier:
    """Appends the envelopes of one partition of the transmission topic there, with the position after them."""

    def __init__(self, there: Kafka, topic_id: str, partition: int) -> None:
        self._there = there
        self._forwarded = forwarded_topic(there.namespace)
        self.key = key_of(topic_id, partition)
        self._id = f"{self._forwarded}.{topic_id}.{partition}"
        self._producer: Producer | None = None

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
            There: the transaction failed. A new carrier begins at the position that is there.
        """
        producer = self._producer
        assert producer is not None
        with self._told():
            producer.begin_transaction()
            for out in outs:
                self._append(producer, out)
            told = json.dumps({"next": position, "at": time.time_ns() // 1_000}).encode()
            self._append(producer, Out(self._forwarded, 0, self.key, told, None))

    def commit(self) -> None:
        """Commit the transaction.

        Raises:
            Fenced: a later carrier of the partition has begun.
            There: the transaction failed, or its outcome is unknown. A new carrier begins at the position that is there.
        """
        assert self._producer is not None
        with self._told():
            self._producer.commit_transaction(TRANSACTION_TIMEOUT)

    @staticmethod
    def _append(producer: Producer, out: Out) -> None:
        while True:
            try:
                producer.produce(out.topic, out.value, out.key, out.partition, headers=out.headers)
            except BufferError:
                producer.poll(0.1)  # the local queue is full: wait for room
            else:
                return

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Raise what the producer raises as errors of this module."""
        try:
            yield
        except (KafkaException, SystemError) as failure:
            error = error_in(failure)
            if error is not None and error.code() in FENCED:
                raise Fenced(f"another forwarder has a partition of {self._id} now") from failure
            why = "the producer met a fatal error" if error is None else describe(error)
            raise There(f"envelopes cannot be appended: {why}") from failure

    def close(self) -> None:
        """Forget the producer. The broker or the next carrier aborts an open transaction."""
        self._producer = None
