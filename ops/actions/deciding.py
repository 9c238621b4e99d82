"""Deciding about failed messages: a command to the owner, and its answer from the events topic."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from conversations.config import Kafka
from conversations.errors import LogError, NotAccepted
from conversations.kafka.commands import CommandProducer
from conversations.kafka.follow import Follower, ends_of, partitions_of
from conversations.protocol.command import Command, encode_command
from conversations.protocol.identifiers import uuid_text
from conversations.protocol.parked import Decision, Parked, resolution
from conversations.protocol.topics import events_topic

ANSWERS = ("RESOLVED", "COMMAND_REFUSED")


class Refused(Exception):
    """The owner did not do what it was asked to; says why."""


def decide(kafka: Kafka, it: Parked, decision: Decision, wait: float) -> None:
    """Carry out a decision about what waits: return once its owner has committed it.

    Raises:
        Refused: it does not wait any more, somebody was faster, or the body is not what its type says.
        LogError: Kafka did not take the command, or no owner answered within ``wait`` seconds.
    """
    _ask(kafka, it, resolution(it, decision, os.urandom(16), time.time_ns() // 1_000), wait)


def _ask(kafka: Kafka, it: Parked, command: Command, wait: float) -> None:
    events = events_topic(kafka.namespace)
    producer = CommandProducer(kafka, it.service)
    with Follower(kafka, [events], since=ends_of(kafka, partitions_of(kafka, [events]))) as follower:
        try:
            producer.append(it.key.encode(), encode_command(command))
        except NotAccepted as error:
            raise LogError(str(error)) from error
        finally:
            producer.close()
        answer = _answer(follower, uuid_text(command.command_id), wait)
    if answer is None:
        raise LogError(
            f"the command is kept, but no worker of {it.service!r} carried it out within {wait:g} s: is it running?"
        )
    if answer["event"] == "COMMAND_REFUSED":
        raise Refused(str(answer["why"]))


def _answer(follower: Follower, command: str, wait: float) -> dict[str, Any] | None:
    deadline = time.monotonic() + wait
    while time.monotonic() < deadline:
        for record in follower.poll(0.2):
            event: dict[str, Any] = json.loads(record.value() or b"{}")
            if event.get("command") == command and event.get("event") in ANSWERS:
                return event
    return None
