"""Checks settings with librdkafka before a client uses them."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaException

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
