"""Telling a Kafka that refuses the login from one that is not there: librdkafka says the same of both, that it timed out."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from conversations.config import Kafka

PATIENCE = 2.0
"""Seconds a broker has to refuse."""
AT_ONCE = 1.0
"""Seconds a broker has to answer: with the request before, less than the 10 s in which a missing Kafka must be reported."""
_REFUSALS = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})  # noqa: SLF001 - its own name


def refused_login(kafka: Kafka) -> str:
    """Say in a line why brokers refuse the login of the settings; empty when there is none, or none refused it just now.

    Asks anew, for at most ``PATIENCE`` seconds: for after a request that was not answered.
    """
    if not str(kafka.settings.get("security.protocol", "")).upper().startswith("SASL"):
        return ""
    heard: list[KafkaError] = []
    quiet: dict[str, Any] = {"log_level": 0, "bootstrap.servers": kafka.bootstrap, "error_cb": heard.append}
    client = AdminClient({**kafka.settings, **quiet})
    with suppress(KafkaException):  # as is to be expected: what counts is what is heard meanwhile
        client.list_topics(timeout=PATIENCE)
        return ""
    client.poll(0)
    return next((error.str() for error in heard if error.code() in _REFUSALS), "")


def is_there(kafka: Kafka) -> bool:
    """Say whether a broker answers at all, within ``AT_ONCE`` seconds: one without a controller answers little else."""
    client = AdminClient({**kafka.settings, "log_level": 0, "bootstrap.servers": kafka.bootstrap})
    with suppress(KafkaException):
        client.list_topics(timeout=AT_ONCE)
        return True
    return False
