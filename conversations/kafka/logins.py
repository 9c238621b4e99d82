"""Telling a Kafka that refuses the login from one that is not there: librdkafka says the same of both, that it timed out."""

from __future__ import annotations

from collections.abc import Callable
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
    if _answers(kafka, PATIENCE, heard.append):
        return ""
    return next((error.str() for error in heard if error.code() in _REFUSALS), "")


def is_there(kafka: Kafka) -> bool:
    """Say whether a broker answers at all, within ``AT_ONCE`` seconds: one without a controller answers little else."""
    return _answers(kafka, AT_ONCE, lambda _: None)


def _answers(kafka: Kafka, patience: float, hear: Callable[[KafkaError], None]) -> bool:
    """Say whether a new client gets an answer; ``hear`` is called with what goes wrong meanwhile."""
    ours: dict[str, Any] = {"log_level": 0, "bootstrap.servers": kafka.bootstrap, "error_cb": hear}
    client = AdminClient({**kafka.settings, **ours})
    with suppress(KafkaException):
        client.list_topics(timeout=patience)
        return True
    client.poll(0)
    return False
