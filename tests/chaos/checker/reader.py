"""Reads the topics of a namespace from Kafka, committed records only, to their ends."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from tests.chaos.checker.records import Log, Place, Record

BATCH = 5_000
STANDSTILL = 60.0
"""Seconds without a record after which Kafka has failed."""
TIMEOUT = 30.0
PAUSE = 0.2
STARTING = {
    KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.FENCED_LEADER_EPOCH, KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE, KafkaError.OFFSET_NOT_AVAILABLE,
}  # fmt: skip
"""What a broker says that does not know yet what it leads."""


class Unreachable(Exception):
    """Kafka does not answer, or not with what was asked for."""


def read(bootstrap: str, topics: Sequence[str]) -> Log:
    """Read every partition of these topics from its beginning to where it ends now.

    Raises:
        Unreachable: no broker, a topic is missing, or nothing comes any more.
    """
    try:
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
        places = _places(admin, topics)
        ends, stable = (_ends(bootstrap, places, level) for level in ("read_uncommitted", "read_committed"))
        return Log(_records(bootstrap, stable), ends, stable)
    except KafkaException as error:
        raise Unreachable(str(error)) from None


def _places(admin: Any, topics: Sequence[str]) -> list[Place]:
    known = admin.list_topics(timeout=TIMEOUT).topics
    missing = [topic for topic in topics if topic not in known or known[topic].error is not None]
    if missing:
        raise Unreachable(f"no topic {missing[0]!r}")
    return [(topic, partition) for topic in topics for partition in sorted(known[topic].partitions)]


def _ends(bootstrap: str, places: Sequence[Place], isolation: str) -> dict[Place, int]:
    """Ask where partitions end; again while leaders have just started."""
    deadline = time.monotonic() + TIMEOUT
    # Not the request of an admin client: librdkafka 2.16 may end the process with a segmentation fault.
    consumer: Any = Consumer({
        "bootstrap.servers": bootstrap, "group.id": f"checker-{uuid4()}", "isolation.level": isolation, "log_level": 2,
    })  # fmt: skip
    try:
        while True:
            try:
                found = consumer.offsets_for_times([TopicPartition(*place, OFFSET_END) for place in places], TIMEOUT)
                if failed := next((it.error for it in found if it.error is not None), None):
                    raise KafkaException(failed)
                return {(it.topic, it.partition): it.offset for it in found}
            except KafkaException as error:
                if time.monotonic() > deadline or error.args[0].code() not in STARTING:
                    raise
            consumer.poll(PAUSE)
    finally:
        consumer.close()


def _records(bootstrap: str, upto: Mapping[Place, int]) -> list[Record]:
    consumer: Any = Consumer({
        "bootstrap.servers": bootstrap, "group.id": f"checker-{uuid4()}", "isolation.level": "read_committed",
        "enable.auto.commit": False, "enable.partition.eof": True, "log_level": 2,
        "fetch.message.max.bytes": 8 << 20, "queued.max.messages.kbytes": 64 << 10,
    })  # fmt: skip
    try:
        consumer.assign([TopicPartition(*place, OFFSET_BEGINNING) for place in upto])
        return _to_the_ends(consumer, dict(upto))
    finally:
        consumer.close()


def _to_the_ends(consumer: Any, unfinished: dict[Place, int]) -> list[Record]:
    """Read until every partition was seen to end at its offset or behind it; the client mends its errors itself."""
    found: list[Record] = []
    deadline = time.monotonic() + STANDSTILL
    trouble = ""
    while unfinished:
        if time.monotonic() > deadline:
            raise Unreachable(
                f"nothing came for {STANDSTILL:g} s, {trouble or 'no error'}; unread: {sorted(unfinished)[:5]}"
            )
        for message in consumer.consume(BATCH, 1.0):
            error = message.error()
            if error is None:
                deadline = time.monotonic() + STANDSTILL
                found.append(record_of(message))
            elif error.code() != KafkaError._PARTITION_EOF:
                trouble = str(error)
            elif message.offset() >= unfinished.get((message.topic(), message.partition()), 0):
                unfinished.pop((message.topic(), message.partition()), None)
    return found


def record_of(message: Any) -> Record:
    """Return the record that a consumer has got."""
    try:
        headers = tuple(message.headers() or ())
    except ValueError:  # a name that is not UTF-8: the client cannot say any of them
        headers = ()
    return Record(
        message.topic(), message.partition(), message.offset(), message.timestamp()[1], message.key(), message.value(),
        headers,
    )  # fmt: skip
