"""Decisions about failed messages."""

from __future__ import annotations

import os
import time

from conversations.config import Kafka
from conversations.protocol.parked import Decision, Parked, resolution
from conversations_ops.operate.commands import ask


def decide(kafka: Kafka, it: Parked, decision: Decision, wait: float) -> None:
    """Send a decision about a parked message to its owner, and return when the owner has committed it.

    Raises:
        Refused: the message is no longer parked, somebody else decided first, or the body does not fit the message type.
        LogError: Kafka did not accept the command, or the owner did not answer within ``wait`` seconds.
    """
    ask(kafka, it.service, [resolution(it, decision, os.urandom(16), time.time_ns() // 1_000)], wait)
