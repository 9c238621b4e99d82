"""Distinguishes a Kafka that refuses the login from a Kafka that does not answer. librdkafka reports a time-out in both cases."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from conversations.config import Kafka

PATIENCE = 2.0
"""Maximum number of seconds to wait until a broker refuses the login."""
AT_ONCE = 1.0
"""Seconds to wait for an answer. This is short, because a failed request came before, and a missing Kafka must be reported within 10 s."""
_REFUSALS = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})  # noqa: SLF001 - librdkafka's


def refused_login(kafka: Kafka) -> str:
    """Return the reason why brokers refuse the login; empty if the settings have no login, or if no broker refuses it now.

    The check is a new request, which takes at most ``PATIENCE`` seconds. Call this function after a request that was not answered.
    """
    if not str(kafka.settings.get("security.protocol", "")).upper().startswith("SASL"):
        return ""
    heard: list[KafkaError] = []
    if _answers(kafka, PATIENCE, heard.append):
        return ""
    return next((error.str() for error in heard if error.code() in _REFUSALS), "")


def is_there(kafka: Kafka) -> bool:
    """Return True if a broker answers a request for metadata within ``AT_ONCE`` seconds. The request needs no controller."""
    return _answers(kafka, AT_ONCE, lambda _: None)


def _answers(kafka: Kafka, patience: float, hear: Callable[[KafkaError], None]) -> bool:
    """Return True if a new client gets an answer. Call ``hear`` with each error that the client reports until then."""
    ours: dict[str, Any] = {"log_level": 0, "bootstrap.servers": kafka.bootstrap, "error_cb": hear}
    client = AdminClient({**kafka.settings, **ours})
    with suppress(KafkaException):
        client.list_topics(timeout=patience)
        return True
    client.poll(0)
    return False
