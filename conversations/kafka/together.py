"""Appending records to a topic so that the kept ones are always the first of the given ones.

A plain producer that gives a record up may still deliver those behind it, and who then begins anew puts it behind them.
Here each part of the records is a transaction, and a part is begun when the one before it was committed.
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
"""A part ends with the record that reaches one of them: readers wait for the end of a transaction."""
PATIENCE = 30.0
"""Seconds a step may be tried again."""

Appended = tuple[int, bytes, bytes]
"""Partition, key and value."""


def append_in_order(kafka: Kafka, transactional_id: str, topic: str, records: Iterable[Appended]) -> int:
    """Append records to partitions of a topic, in order; return how many.

    A producer with the same ``transactional_id`` shuts out the one before, and its open transaction is aborted.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: not all is kept, only a beginning, which may be nothing: to give the same again is right.
    """
    producer = _started(kafka, transactional_id)
    count = 0
    for part in _parts(records):
        try:
            _append(producer, topic, part)
        except (KafkaException, SystemError) as failure:
            # Nobody needs the transaction's records; if it was committed after all, abort is refused.
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
    # A record that is not delivered makes the commit fail, and with it all of the part.
    patiently(lambda: producer.commit_transaction(TRANSACTION_TIMEOUT), PATIENCE)


def _refusal(kafka: Kafka, transactional_id: str, failure: KafkaException | SystemError) -> LogError:
    if not isinstance(failure, KafkaException):
        return LogError(f"the producer of {transactional_id} met a fatal error")
    error: KafkaError = failure.args[0]
    if is_producer_fenced(error):
        return LogError(f"another process writes as {transactional_id} now: let one of them work at a time")
    return translated(kafka, f"records of {transactional_id} were not taken", failure)
