"""What a consumer group has committed, asked by a consumer that is no member.

Not by an administrative client: librdkafka 2.16 follows a coordinator that moved through the group of its handle, which an
administrative client has none of, and ends the process with a segmentation fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from threading import Thread

from confluent_kafka import TopicPartition

from conversations.config import Kafka
from conversations.kafka.clients import REQUEST_TIMEOUT, make_consumer

WITH_ROW = "with the row"
"""Metadata of offsets that an owner commits: its partition's row is in the same transaction. Whoever moves offsets has none."""


def committed(
    kafka: Kafka, group: str, places: Sequence[tuple[str, int]], *, stable: bool = True
) -> list[TopicPartition]:
    """Return the offsets of a group, negative where there is none; ``stable``: when no open transaction carries one.

    Raises:
        KafkaException: nobody answered within ``REQUEST_TIMEOUT`` seconds, or a transaction stayed open as long.
    """
    # A read_uncommitted consumer would be told the offset before a transaction that is about to commit.
    level = "read_committed" if stable else "read_uncommitted"
    consumer = make_consumer(kafka, {"group.id": group, "isolation.level": level})
    try:
        return consumer.committed([TopicPartition(*place) for place in places], REQUEST_TIMEOUT)
    finally:
        consumer.close()


def ask_committed(kafka: Kafka, group: str, places: Sequence[tuple[str, int]]) -> Future[list[TopicPartition]]:
    """Ask for stable offsets from a thread of its own, for those who may not wait."""
    future: Future[list[TopicPartition]] = Future()
    future.set_running_or_notify_cancel()

    def ask() -> None:
        try:
            future.set_result(committed(kafka, group, places))
        except BaseException as failure:  # noqa: BLE001 - whoever asked is to see it, whatever it is
            future.set_exception(failure)

    Thread(target=ask, name=f"offsets of {group}", daemon=True).start()
    return future
