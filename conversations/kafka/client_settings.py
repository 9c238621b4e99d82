"""Checks settings with librdkafka before a client uses them."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaException, libversion

from conversations.config import Kafka
from conversations.errors import LogError
from conversations.kafka import consumer, transactions
from conversations.kafka.clients import make_consumer, make_producer

log = logging.getLogger("conversations.kafka")

_ALONE = {"group.id": "nobody", "log_level": 0, "logger": log}
"""Settings of a client that makes no connection."""


def refusal(settings: Mapping[str, str]) -> str | None:
    """Return the reason why librdkafka refuses these settings, or None if it accepts them. No connection is made."""
    try:
        Consumer({**settings, **_ALONE}).close()
    except KafkaException as failure:
        return str(failure.args[0].str()).strip()
    return None


def refusal_of_worker(kafka: Kafka) -> str:
    """Return why librdkafka refuses the clients of a worker with these settings; empty if it makes them. Nothing is sent to them."""
    member = {**consumer.SAFE, **consumer.PROTOCOLS["consumer"], "group.id": "nobody"}
    try:
        make_consumer(kafka, member, consumer.PREFERRED, member=True).close()
        make_producer(kafka, {**transactions.SAFE, "transactional.id": "nobody"}, transactions.PREFERRED)
    except LogError as failure:
        return str(failure)
    return ""


def client_version() -> tuple[int, ...]:
    """Return the version of librdkafka."""
    return tuple(int(part) for part in libversion()[0].split("-")[0].split("."))
