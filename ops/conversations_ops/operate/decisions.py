"""Deciding about failed messages."""

from __future__ import annotations

import os
import time

from conversations.config import Kafka
from conversations.protocol.parked import Decision, Parked, resolution
from conversations_ops.operate.commands import ask


def decide(kafka: Kafka, it: Parked, decision: Decision, wait: float) -> None:
    """Carry out a decision about what waits: return once its owner has committed it.

    Raises:
        Refused: it does not wait any more, somebody was faster, or the body is not what its type says.
        LogError: Kafka did not take the command, or no owner answered within ``wait`` seconds.
    """
    ask(kafka, it.service, [resolution(it, decision, os.urandom(16), time.time_ns() // 1_000)], wait)
