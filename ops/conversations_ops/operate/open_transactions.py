"""Aborts transactions of other programs that hide the newest records of a queue."""

from __future__ import annotations

import time
from collections.abc import Sequence

from conversations.config import Kafka
from conversations.durations import SECOND
from conversations.kafka.appending import append
from conversations.kafka.log_times import open_transactions
from conversations.kafka.offsets import partitions_of
from conversations.kafka.transaction_log import Ongoing, abort, ongoing
from conversations.protocol.events import TransactionAborting, encode_tool_event
from conversations.protocol.topics import QUEUE, events_topic, service_topic
from conversations_ops.operate.open_letters import Request

LONG = 5 * SECOND
"""Duration after which an open transaction is named, in microseconds. A worker or sender of this product ends one within milliseconds."""


def hiding(kafka: Kafka, service: str) -> list[Ongoing]:
    """Return the transactions that hide records of a queue for ``LONG`` or more, by name.

    Raises:
        LogError: the queue, or Kafka's log of transactions, cannot be read.
    """
    places = partitions_of(kafka, [service_topic(kafka.namespace, service, QUEUE)])
    now = time.time_ns() // 1_000
    times = {place: at for place, at in open_transactions(kafka, places).items() if now - at >= LONG}
    if not times:
        return []
    return [it for it in ongoing(kafka, list(times), min(times.values())) if now - it.since >= LONG]


def end(kafka: Kafka, service: str, found: Sequence[Ongoing], request: Request) -> None:
    """Let Kafka abort transactions. An event with the operator and the reason is written before each of them.

    Raises:
        LogError: Kafka did not accept the event, or a right is missing.
    """
    for it in found:
        event = TransactionAborting(service, time.time_ns() // 1_000, it.transactional_id, request.by, request.reason)
        append(kafka, events_topic(kafka.namespace), [(service.encode(), encode_tool_event(event))])
        abort(kafka, it.transactional_id)
