"""Decisions about failed messages."""

from __future__ import annotations

import json
import os
import time

from conversations.bodies import JSON
from conversations.config import Kafka
from conversations.protocol.command import Action
from conversations.protocol.parked import Decision, Parked, resolution
from conversations_ops.operate.commands import ask, give_back
from conversations_ops.operate.redrive.outcomes import OF_EVENT, Outcome

GIVES_BACK = (Action.RETRY, Action.EDIT)
"""Decisions that give a message back to its handler."""


def not_json(it: Parked, body: bytes) -> str:
    """Say why a new body cannot be the body of a message with JSON bodies; empty if it can. Only the owner has the message type, and checks the rest."""
    if it.content_type.partition(";")[0].strip() != JSON:
        return ""
    try:
        json.loads(body)
    except (ValueError, RecursionError) as error:
        return f"the new body is not JSON, but {it.what} has JSON bodies: {error}"
    return ""


def decide(kafka: Kafka, it: Parked, decision: Decision, wait: float) -> Outcome | None:
    """Send a decision about a parked message to its owner, and return when the owner has committed it.

    If the decision gives the message back to its handler, wait up to ``wait`` seconds more for the outcome, and return it. Return None
    for another decision, or if the outcome is not known by then.

    Raises:
        Refused: the message is no longer parked, somebody else decided first, or the body does not fit the message type.
        LogError: Kafka did not accept the command, or the owner did not answer within ``wait`` seconds.
    """
    command = resolution(it, decision, os.urandom(16), time.time_ns() // 1_000)
    if decision.action not in GIVES_BACK:
        ask(kafka, it.service, [command], wait)
        return None
    returned = give_back(kafka, it.service, command, wait)
    return None if returned is None else OF_EVENT.get(returned.outcome)
