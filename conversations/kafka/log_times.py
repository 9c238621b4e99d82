"""Compares the times in the logs with a machine's clock: transactions that stay open, and records that are dated in the future."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import monotonic

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, TopicPartition

from conversations.config import Kafka
from conversations.kafka.clients import close_reader, make_consumer
from conversations.kafka.offsets import Offsets, Place, ask_decided, ends_of, since

READ_WITHIN = 5.0
"""Maximum number of seconds in which the first records of open transactions are read."""


def open_transactions(kafka: Kafka, places: Sequence[Place]) -> dict[Place, int]:
    """Return since when each partition has an open transaction, in microseconds since 1970. Partitions without one are left out.

    The time is that of the first record of the transaction, by the clock of the broker. Partitions whose records this client may not
    read are left out, too.

    Args:
        kafka: the cluster.
        places: partitions that have a leader, of topics with LogAppendTime.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: a partition does not exist, or a right is missing.
    """
    # First the decided ends: a transaction that begins between the two questions is then counted as open, and it is young.
    decided = ask_decided(kafka, places).result()
    ends = ends_of(kafka, [*decided])
    return _appended(kafka, {place: offset for place, offset in decided.items() if offset < ends[place]})


def dated_after(kafka: Kafka, places: Sequence[Place], millis: int) -> dict[Place, int]:
    """Return the log time of the first record of each partition that is dated after ``millis``, in microseconds.

    Args:
        kafka: the cluster.
        places: partitions that have a leader, of topics with LogAppendTime.
        millis: milliseconds since 1970.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: a partition does not exist, or a right is missing.
    """
    return _appended(kafka, since(kafka, places, millis))


def _appended(kafka: Kafka, offsets: Mapping[Place, int]) -> Offsets:
    """Return the log times of the records at some offsets, in microseconds. Records that cannot be read now are left out."""
    found: Offsets = {}
    if not offsets:
        return found
    consumer = make_consumer(kafka, {"group.id": "log-times", "isolation.level": "read_uncommitted"})
    try:
        consumer.assign([TopicPartition(*place, offset) for place, offset in offsets.items()])
        until = monotonic() + READ_WITHIN
        while len(found) < len(offsets) and (left := until - monotonic()) > 0:
            record = consumer.poll(left)
            if record is None or record.error() is not None:
                continue
            place = (record.topic() or "", record.partition() or 0)
            kind, millis = record.timestamp()
            if place not in found and kind == TIMESTAMP_LOG_APPEND_TIME:
                found[place] = millis * 1_000
                consumer.pause([TopicPartition(*place)])
    finally:
        close_reader(consumer)
    return found
