"""Sends the decisions of operators to the owners of dialogs and queues, and reads their answers from the events topic."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from contextlib import contextmanager
from typing import TypeAlias

from conversations.config import Kafka
from conversations.errors import LogError, NotAccepted
from conversations.kafka.commands import CommandProducer
from conversations.kafka.follow import Follower
from conversations.kafka.offsets import ends_of, partitions_of
from conversations.protocol.command import Command, encode_command
from conversations.protocol.events import (
    CommandDone,
    CommandRefused,
    QueueDisabled,
    QueueEnabled,
    Resolved,
    Returned,
    Settled,
)
from conversations.protocol.identifiers import uuid_text
from conversations.protocol.topics import DECISIONS, events_topic
from conversations_ops.operate.events import understood

Answer: TypeAlias = Resolved | Settled | CommandDone | QueueDisabled | QueueEnabled | CommandRefused
"""Events that answer a command."""


CONFIRMED = 10.0
"""Seconds within which Kafka must confirm commands that go out together."""


class Refused(Exception):
    """The owner refused a command; the message says why."""


def ask(kafka: Kafka, service: str, commands: Sequence[Command], wait: float) -> list[Answer]:
    """Append commands to Kafka, wait until the owners have committed all of them, and return the answers.

    Raises:
        Refused: an owner refused a command.
        LogError: Kafka did not accept the commands, or an answer is missing after ``wait`` seconds.
    """
    found = answers(kafka, service, commands, wait)
    _check_done(found)
    return found


def give_back(kafka: Kafka, service: str, command: Command, wait: float) -> Returned | None:
    """Append a command that gives a message back to its handler, and wait for its answer and then for the outcome of the message.

    Return None if the outcome is not known ``wait`` seconds after the answer.

    Raises:
        Refused: the owner refused the command.
        LogError: Kafka did not accept the command, or the answer is missing after ``wait`` seconds.
    """
    with _appended(kafka, service, [command]) as follower:
        awaited = _Awaited([command])
        awaited.follow(follower, wait, lambda: bool(awaited.missing))
        _check_complete(awaited, service, [command], wait)
        _check_done(awaited.found)
        awaited.follow(follower, wait, lambda: awaited.outcome is None)
    return awaited.outcome


def answers(kafka: Kafka, service: str, commands: Sequence[Command], wait: float) -> list[Answer]:
    """Append commands to Kafka, wait for all answers, and return the answers. Refusals are answers too.

    Raises:
        LogError: Kafka did not accept the commands, or an answer is missing after ``wait`` seconds.
    """
    with _appended(kafka, service, commands) as follower:
        awaited = _Awaited(commands)
        awaited.follow(follower, wait, lambda: bool(awaited.missing))
    _check_complete(awaited, service, commands, wait)
    return awaited.found


@contextmanager
def _appended(kafka: Kafka, service: str, commands: Sequence[Command]) -> Iterator[Follower]:
    """Append commands, and yield a reader of the events that follow.

    Raises:
        LogError: Kafka did not accept the commands.
    """
    events = events_topic(kafka.namespace)
    producer = CommandProducer(kafka, service, DECISIONS)
    with Follower(kafka, [events], since=ends_of(kafka, partitions_of(kafka, [events]))) as follower:
        try:
            await_all([producer.append_async(it.key.encode(), [encode_command(it)]) for it in commands])
        finally:
            producer.close()
        yield follower


def await_all(sent: Sequence[Future[None]]) -> None:
    """Wait until every in-sync replica has the commands that are on their way.

    Raises:
        DeclarationError: the catalog does not name the service, or its topic of decisions is missing.
        LogError: Kafka refused a command, or did not confirm it in time.
    """
    _, late = wait_for(sent, CONFIRMED)
    try:
        for it in sent:
            it.result(0)
    except NotAccepted as error:
        raise LogError(str(error)) from error
    except TimeoutError:
        raise LogError(f"Kafka did not confirm {len(late)} of {len(sent)} commands in {CONFIRMED:g} s") from None


class _Awaited:
    """The answers to commands so far, and the outcome of a message that one of them gave back."""

    def __init__(self, commands: Sequence[Command]) -> None:
        self._commands = {uuid_text(command.command_id) for command in commands}
        self.missing = set(self._commands)
        self.found: list[Answer] = []
        self.outcome: Returned | None = None

    def follow(self, follower: Follower, wait: float, more: Callable[[], bool]) -> None:
        """Read events while ``more`` returns True, but at most for ``wait`` seconds."""
        deadline = time.monotonic() + wait
        while more() and time.monotonic() < deadline:
            for event in understood(follower.poll(0.2)):
                if isinstance(event, Answer) and event.command is not None and event.command in self.missing:
                    self.missing.discard(event.command)
                    self.found.append(event)
                elif isinstance(event, Returned) and event.command in self._commands:
                    self.outcome = event


def _check_complete(awaited: _Awaited, service: str, commands: Sequence[Command], wait: float) -> None:
    if awaited.missing:
        what = "the command" if len(commands) == 1 else f"{len(awaited.missing)} of {len(commands)} commands"
        raise LogError(
            f"no worker of {service!r} answered {what} within {wait:g} s: does the service run? "
            "Workers of an older release do not read decisions: update them. "
            "Kafka has accepted all commands, so they may still take effect later"
        )


def _check_done(found: Sequence[Answer]) -> None:
    for answer in found:
        if isinstance(answer, CommandRefused):
            raise Refused(answer.why)
