"""What a service is told when the queue of a partition goes off."""

from __future__ import annotations

from typing import NamedTuple


class QueueDisabled(NamedTuple):
    """The queue of a partition is off. Until ``conversations queue on``, its messages are accepted and parked, but not handled."""

    service: str
    partition: int
    cause: str
    """``operator``, ``policy`` or ``rollbacks``."""
    by: str
    """The operator, the message type whose policy turned the queue off, or the number of rollbacks."""
    reason: str
    """The operator's reason, or the last failure."""
