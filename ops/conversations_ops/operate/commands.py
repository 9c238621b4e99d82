"""Sends commands to the owners of dialogs and queues, and reads their answers from the events topic."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TypeAlias

from conversations.config import Kafka
from conversations.errors import LogError, NotAccepted
from conversations.kafka.commands import CommandProducer
from conversations.kafka.follow import Follower
from conversations.kafka.offsets import ends_of, partitions_of
from conversations.protocol.command import Command, encode_command
from conversations.protocol.events import CommandDone, CommandRefused, QueueDisabled, QueueEnabled, Resolved, Settled
from conversations.protocol.identifiers import uuid_text
from conversations.protocol.topics import events_topic
from conversations_ops.operate.events import understood

Answer: TypeAlias = Resolved | Settled | CommandDone | QueueDisabled | QueueEnabled | CommandRefused
"""Events that answer a command."""


class Refused(Exception):
    """The owner refused a command; the message says why."""


def ask(kafka: Kafka, service: str, commands: Sequence[Command], wait: float) -> list[Answer]:
    """Append commands to Kafka, wait until the owners have committed all of them, and return the answers.

    Raises:
        Refused: an owner refused a command.
        LogError: Kafka did not accept the commands, or an answer is missing after ``wait`` seconds.
    """
    found = answers(kafka, service, commands, wait)
    for answer in found:
        if isinstance(answer, CommandRefused):
            raise Refused(answer.why)
    return found


def answers(kafka: Kafka, service: str, commands: Sequence[Command], wait: float) -> list[Answer]:
    """Append commands to Kafka, wait for all answers, and return the answers. Refusals are answers too.

    Raises:
        LogError: Kafka did not accept the commands, or an answer is missing after ``wait`` seconds.
    """
    events = events_topic(kafka.namespace)
    producer = CommandProducer(kafka, service)
    with Follower(kafka, [events], since=ends_of(kafka, partitions_of(kafka, [events]))) as follower:
        try:
            for command in commands:
                producer.append(command.key.encode(), encode_command(command))
        except NotAccepted as error:
            raise LogError(str(error)) from error
        finally:
            producer.close()
        found = _answers(follower, {uuid_text(command.command_id) for command in commands}, wait)
    if len(found) < len(commands):
        missing = len(commands) - len(found)
        what = "the command" if len(commands) == 1 else f"{missing} of {len(commands)} commands"
        raise LogError(
            f"no worker of {service!r} answered {what} within {wait:g} s: does the service run? "
            "Kafka has accepted all commands, so they may still take effect later"
        )
    return found


def _answers(follower: Follower, waited_for: set[str], wait: float) -> list[Answer]:
    found: list[Answer] = []
    deadline = time.monotonic() + wait
    while waited_for and time.monotonic() < deadline:
        for event in understood(follower.poll(0.2)):
            if isinstance(event, Answer) and event.command is not None and event.command in waited_for:
                waited_for.discard(event.command)
                found.append(event)
    return found
