"""What librdkafka says of settings before a client uses them."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaException

log = logging.getLogger("conversations.kafka")

_ALONE = {"group.id": "nobody", "log_level": 0, "logger": log}
"""Of a client that connects to nothing."""


def refusal(settings: Mapping[str, str]) -> str | None:
    """Return why librdkafka takes no client with these settings, None when it takes one; nothing is connected."""
    try:
        Consumer({**settings, **_ALONE}).close()
    except KafkaException as failure:
        return str(failure.args[0].str()).strip()
    return None
