"""Faults of the product that a run of two clusters plants on purpose, to show that the checker finds them.

``loses``: forwarders never carry message 3 of a dialog, however often it is transmitted. ``repeats``: workers accept the last message of a dialog again. These
workers run in the Python form, as a compiled method cannot be replaced.
"""

from __future__ import annotations

import os

from conversations import Service
from conversations.form import PURE
from conversations.protocol.sequencing import Arrival, Inbound
from tests.chaos.remote import services
from tests.chaos.remote.services import LEFT, RIGHT, Said

PLANTED = "REMOTE_PLANTED"
"""Environment variable: the fault that is planted; empty in an honest run."""
LOSES, REPEATS = "loses", "repeats"
HERE = "tests.chaos.remote.planted"
TARGETS = {LEFT: f"{HERE}:left_{{}}", RIGHT: f"{HERE}:right_{{}}"}
_honest = Inbound.arrive


def environment(plant: str) -> dict[str, str]:
    """Return the environment variables that plant a fault in the processes of the run."""
    return {PLANTED: plant, PURE: "1"} if plant == REPEATS else {PLANTED: plant}


def planted() -> str:
    """Return the planted fault; empty if there is none."""
    return os.environ.get(PLANTED, "")


def targets() -> dict[str, str]:
    """Return what the processes of each service run."""
    return TARGETS if planted() == REPEATS else services.TARGETS


def left_1() -> Service[Said]:
    """The service of the cluster ``home``, in a process that accepts repeated messages."""
    Inbound.arrive = _arrive  # type: ignore[method-assign]
    return services.left_1()


def right_1() -> Service[Said]:
    """The service of the cluster ``emea``, in a process that accepts repeated messages."""
    Inbound.arrive = _arrive  # type: ignore[method-assign]
    return services.right_1()


def _arrive(self: Inbound, number: int, limit: int) -> Arrival:
    return Arrival.NEXT if number == self.next - 1 else _honest(self, number, limit)
