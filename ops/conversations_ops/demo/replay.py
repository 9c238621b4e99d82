"""Simulates a wire that delivers some records twice: appends records of a topic a second time, unchanged. For demos and tests."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from threading import Event, Thread
from typing import Any

from confluent_kafka import KafkaError, Message

from conversations.config import Kafka
from conversations.errors import LogError
from conversations.headers import read_headers
from conversations.kafka.clients import make_producer
from conversations.kafka.failures import describe
from conversations.kafka.follow import Follower
from conversations.kafka.offsets import Place
from conversations.ports import Record

CONFIRMED_WITHIN = 30.0
"""Maximum seconds until Kafka has confirmed the last duplicates."""


class Replayer:
    """Appends a share of the records of some topics a second time: same partition, key, value and headers.

    Only committed records are repeated, because readers never see the records of an aborted transaction. Half of the duplicates
    are appended at once. ``finish`` appends the other half, long after the original records.

    Args:
        kafka: the cluster.
        topics: topics whose records are repeated.
        share: share of the records that are repeated, 0 to 1.
        random: chooses the records.
    """

    def __init__(self, kafka: Kafka, topics: Sequence[str], share: float, random: Random) -> None:
        self._kafka, self._topics, self._share, self._random = kafka, topics, share, random
        self._producer: Any = make_producer(kafka, {"acks": "all"})
        self._kept: list[Record] = []
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="replay", daemon=True)
        self.places: list[tuple[Place, int]] = []
        """Topic, partition and offset of each confirmed duplicate."""
        self.failure: BaseException | None = None

    def start(self) -> None:
        """Begin to read the topics and to append duplicates."""
        self._thread.start()

    def finish(self) -> None:
        """Stop reading, append the duplicates that are left, and wait until Kafka has confirmed all duplicates.

        Raises:
            LogError: Kafka did not confirm all duplicates in time.
        """
        self.stop()
        if self.failure is not None:
            raise self.failure
        for record in self._kept:
            self._again(record)
        if self._producer.flush(CONFIRMED_WITHIN):
            raise LogError(f"duplicates were not confirmed within {CONFIRMED_WITHIN:g} s")
        if self.failure is not None:
            raise self.failure

    def stop(self) -> None:
        """Stop reading, and append no further duplicates. The method ``finish`` appends the remaining duplicates."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            with Follower(self._kafka, self._topics) as follower:
                while not self._stopping.is_set():
                    for record in follower.poll(0.1):
                        if self._random.random() < self._share:
                            self._choose(record)
                    self._producer.poll(0)
        except BaseException as error:  # noqa: BLE001 - carried to the thread that waits
            self.failure = error

    def _choose(self, record: Record) -> None:
        if self._random.random() < 0.5:
            self._kept.append(record)
        else:
            self._again(record)

    def _again(self, record: Record) -> None:
        self._producer.produce(
            record.topic(),
            record.value(),
            record.key(),
            record.partition(),
            headers=read_headers(record) or [],
            on_delivery=self._delivered,
        )

    def _delivered(self, error: KafkaError | None, record: Message) -> None:
        if error is None:
            self.places.append(((record.topic() or "", record.partition() or 0), record.offset() or 0))
        else:
            self.failure = LogError(f"Kafka did not accept a duplicate: {describe(error)}")
