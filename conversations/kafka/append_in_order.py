"""Appends records to a topic in order. After a failure, the topic has a prefix of the records, without gaps.

A plain producer may give up on one record and still deliver the next records. If the caller then appends all records
again, the topic has records in the wrong order. Here the records are divided into parts. Each part is one transaction, and a part
begins only after the part before it was committed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from conversations.config import Kafka
from conversations.errors import LogError
from conversations.kafka.clients import make_producer, translated
from conversations.kafka.failures import is_producer_fenced
from conversations.kafka.retrying import patiently
from conversations.kafka.transactions import PREFERRED, SAFE, TRANSACTION_TIMEOUT

PART_RECORDS, PART_BYTES = 1_000, 4_000_000
"""A part ends when it has this many records or bytes. Parts are small because readers wait for the end of a transaction."""
PATIENCE = 30.0
"""Seconds for which a call to Kafka is repeated."""

Appended = tuple[int, bytes, bytes]
"""Partition, key and value."""


def append_in_order(kafka: Kafka, transactional_id: str, topic: str, records: Iterable[Appended]) -> int:
    """Append records to partitions of a topic, in order. Return the number of records.

    A new producer with the same ``transactional_id`` fences the earlier producer and aborts its open transaction.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: only a prefix of the records was appended, possibly an empty prefix. Append all records again.
    """
    producer = _started(kafka, transactional_id)
    count = 0
    for part in _parts(records):
        try:
            _append(producer, topic, part)
        except (KafkaException, SystemError) as failure:
            # The transaction's records are not needed. If the transaction is committed already, the broker refuses the abort.
            with contextlib.suppress(KafkaException, SystemError):
                producer.abort_transaction(TRANSACTION_TIMEOUT)
            raise _refusal(kafka, transactional_id, failure) from failure
        count += len(part)
    return count


def _parts(records: Iterable[Appended]) -> Iterator[list[Appended]]:
    part: list[Appended] = []
    size = 0
    for record in records:
        part.append(record)
        size += len(record[1]) + len(record[2])
        if len(part) >= PART_RECORDS or size >= PART_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def _started(kafka: Kafka, transactional_id: str) -> Any:
    producer = make_producer(kafka, {**SAFE, "transactional.id": transactional_id}, PREFERRED)
    try:
        patiently(lambda: producer.init_transactions(TRANSACTION_TIMEOUT), PATIENCE)
    except KafkaException as failure:
        raise _refusal(kafka, transactional_id, failure) from failure
    return producer


def _append(producer: Any, topic: str, part: list[Appended]) -> None:
    producer.begin_transaction()
    for partition, key, value in part:
        while True:
            try:
                producer.produce(topic, value, key, partition)
                break
            except BufferError:
                producer.poll(0.1)
    # A record that is not delivered makes the commit fail. Then no record of the part becomes visible.
    patiently(lambda: producer.commit_transaction(TRANSACTION_TIMEOUT), PATIENCE)


def _refusal(kafka: Kafka, transactional_id: str, failure: KafkaException | SystemError) -> LogError:
    if not isinstance(failure, KafkaException):
        return LogError(f"the producer of {transactional_id} met a fatal error")
    error: KafkaError = failure.args[0]
    if is_producer_fenced(error):
        return LogError(
            f"another process uses the transactional id {transactional_id} now: run only one of them at a time"
        )
    return translated(kafka, f"records of {transactional_id} were not appended", failure)
