"""Turning the queues of a service on and off."""

from __future__ import annotations

import os
import time

from conversations.config import Kafka
from conversations.kafka.catalog import read_catalog
from conversations.protocol.command import Switch, to_partition
from conversations_ops.operate.asking import Answer, ask


def turn(kafka: Kafka, service: str, operation: Switch, by: str, wait: float) -> list[Answer]:
    """Turn the queue of every partition on or off; return what their owners answered.

    Raises:
        Refused: an owner refused it.
        LogError: Kafka did not take the commands, or not all owners answered within ``wait`` seconds: they will.
    """
    count = read_catalog(kafka).partitions(service) or 0
    now = time.time_ns() // 1_000
    return ask(
        kafka,
        service,
        [to_partition((number, count), operation, by, os.urandom(16), now) for number in range(count)],
        wait,
    )
