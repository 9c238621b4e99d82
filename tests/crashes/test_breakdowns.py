"""What our own code raises around a handler is its record's: kept as a dead letter, undone, told, and the worker goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from conversations import WorkerSettings
from conversations.ports import Out
from conversations.protocol import codes, rows
from conversations.protocol.command import Settle, Source, encode_command, to_partition, topic_for
from conversations.protocol.endpoint import Endpoint
from conversations.protocol.topics import COMMANDS, DECISIONS, QUEUE, events_topic, service_topic
from conversations.testing.reading import dead_letters, visible
from conversations.worker import Worker, dispatch, inbound, intake, partition_commands, rollbacks
from tests.crashes.support.mortal_workers import Job, MortalService, die, until
from tests.support.forms import python_form

pytestmark = python_form


class _BugError(Exception):
    """Our own code raises it."""


@pytest.fixture
def mortal() -> Iterator[MortalService]:
    made = MortalService()
    yield made
    made.let_go.set()


def events(mortal: MortalService, name: str) -> list[dict[str, Any]]:
    found = [json.loads(it.value() or b"") for it in visible(mortal.broker, events_topic(mortal.broker.namespace))]
    return [event for event in found if event["event"] == name]


def breaks(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, function: str, when: Callable[..., bool] = lambda *_: True
) -> None:
    """Let a function of ours raise, when it is called so."""
    real = getattr(module, function)

    def broken(*arguments: Any, **named: Any) -> Any:
        if when(*arguments):
            raise _BugError("on purpose")
        return real(*arguments, **named)

    monkeypatch.setattr(module, function, broken)


def works_on(mortal: MortalService, worker: Worker, jobs: int) -> None:
    """The same worker handles what else there is, and what comes then."""
    until(lambda: len(set(mortal.handled)) == jobs, worker)
    mortal.send(Job(n=99))
    until(lambda: 99 in mortal.handled, worker)
    until(lambda: mortal.row().unclean_starts == 0, worker)
    worker.close()


def throw(
    mortal: MortalService, kind: str, key: bytes, value: bytes, headers: list[tuple[str, bytes]] | None = None
) -> int:
    return mortal.broker.append(Out(service_topic(mortal.broker.namespace, "slow", kind), 0, key, value, headers))


def test_a_record_that_cannot_be_taken_is_set_aside(mortal: MortalService, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the polling thread, between others of the same batch."""
    mortal.send(Job(n=1))
    offset = throw(mortal, QUEUE, b"k", b"odd")
    mortal.send(Job(n=2))
    breaks(monkeypatch, intake, "decode_current", lambda value: value == b"odd")
    works_on(mortal, mortal.worker(), 2)
    (letter,) = dead_letters(mortal.broker, "slow")
    assert (letter.reason, letter.value) == ("set-aside", b"odd")
    assert [event["offset"] for event in events(mortal, "SET_ASIDE")] == [offset]


@pytest.mark.parametrize("headers", [[("\udcff", b"x")], [("dialog", b"x"), ("\udcff", b"x")]])
@pytest.mark.parametrize("kind", [QUEUE, COMMANDS, DECISIONS])
def test_a_record_with_a_header_that_cannot_be_read_is_set_aside(
    mortal: MortalService, kind: str, headers: list[tuple[str, bytes]]
) -> None:
    """Its headers are asked for once: a second time ends the process."""
    mortal.send(Job(n=1))
    offset = throw(mortal, kind, b"k", b"odd", headers)
    mortal.send(Job(n=2))
    works_on(mortal, mortal.worker(), 2)
    (letter,) = dead_letters(mortal.broker, "slow")
    assert (letter.reason, letter.value) == ("set-aside", b"odd")
    assert [event["offset"] for event in events(mortal, "SET_ASIDE")] == [offset]


@pytest.mark.parametrize("offset", [-1, -(1 << 63)])
def test_a_letter_before_the_first_record_is_not_open(mortal: MortalService, offset: int) -> None:
    command = to_partition(
        (0, 1), Settle((Source("QUEUE", offset),), "done"), "operator", bytes(16), mortal.broker.clock.now()
    )
    throw(mortal, topic_for(command), command.key.encode(), encode_command(command))
    mortal.send(Job(n=1))
    works_on(mortal, mortal.worker(), 1)
    (letter,) = dead_letters(mortal.broker, "slow")
    assert (letter.reason, letter.code) == ("command-refused", codes.LETTER_NOT_OPEN.number)


def test_a_command_that_cannot_be_carried_out_is_refused_and_undone(
    mortal: MortalService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What else its step did is done once."""
    command = to_partition((0, 1), Settle((), "done"), "operator", bytes(16), mortal.broker.clock.now())
    value = encode_command(command)
    mortal.send(Job(n=1))
    throw(mortal, DECISIONS, command.key.encode(), value)
    mortal.send(Job(n=2))
    breaks(monkeypatch, partition_commands, "prepare_settling")
    works_on(mortal, mortal.worker(), 2)
    (letter,) = dead_letters(mortal.broker, "slow")
    assert (letter.reason, letter.value, letter.exception) == (
        "command-refused", value, f"{_BugError.__module__}._BugError",
    )  # fmt: skip
    assert len(events(mortal, "COMMAND_REFUSED")) == 1


@pytest.mark.parametrize("function", ["handled", "receive"])
def test_a_message_around_whose_handler_our_code_fails_is_kept(
    mortal: MortalService, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    """Given up on as its policy says where that can be done, else set aside; its step is undone, others go on."""
    for number in range(5):
        mortal.send(Job(n=number))
    breaks(
        monkeypatch, inbound, function, lambda _, item, *__: item.envelope is not None and b"3" in item.envelope.body
    )
    worker = mortal.worker()
    until(lambda: bool(dead_letters(mortal.broker, "slow")), worker)
    mortal.handled.append(3)  # it may have run, and was undone
    until(lambda: len(set(mortal.handled)) == 5 and mortal.row().unclean_starts == 0, worker)
    worker.close()
    (letter,) = dead_letters(mortal.broker, "slow")
    assert letter.reason == ("handler-failed" if function == "handled" else "set-aside")


def test_what_cannot_be_committed_is_found_among_many(mortal: MortalService, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows at first which of a step's records it was: they are done one by one."""
    culprits: list[bytes] = []
    real = dispatch._outcome

    def outcome(partition: Any, item: Any, *rest: Any) -> Any:
        if b"3" in item.envelope.body:
            culprits.append(item.active.identity[:16])
        return real(partition, item, *rest)

    monkeypatch.setattr(dispatch, "_outcome", outcome)
    breaks(monkeypatch, rows, "encode_endpoint", lambda endpoint, _: _is(endpoint, culprits))
    for number in range(8):
        mortal.send(Job(n=number))
    worker = mortal.worker()
    until(lambda: bool(dead_letters(mortal.broker, "slow")), worker)
    culprits.clear()
    works_on(mortal, worker, 8)
    (letter,) = dead_letters(mortal.broker, "slow")
    assert letter.reason == "set-aside"
    assert [event["why"] for event in events(mortal, "PARTITION_SET_ASIDE")] == []


def _is(endpoint: Endpoint, culprits: list[bytes]) -> bool:
    return endpoint.conversation in culprits


def test_a_command_that_kills_its_process_is_refused_after_its_deaths(
    mortal: MortalService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no handler, and is found as a handler's message is: five deaths at most."""
    command = to_partition((0, 1), Settle((), "done"), "operator", bytes(16), mortal.broker.clock.now())
    value = encode_command(command)
    mortal.send(Job(n=1))
    throw(mortal, DECISIONS, command.key.encode(), value)

    def kill(*_: object) -> None:
        raise _Killed

    monkeypatch.setattr(partition_commands, "prepare_settling", kill)
    monkeypatch.setattr(rollbacks, "count", lambda *_: None)  # a process that is killed counts nothing
    deaths, worker = 0, mortal.worker()
    while not dead_letters(mortal.broker, "slow"):
        try:
            until(lambda: bool(dead_letters(mortal.broker, "slow")), worker)
        except _Killed:
            deaths += 1
            assert deaths <= 5
            die(worker)
            worker = mortal.worker()
    assert deaths == WorkerSettings().deaths + 2
    works_on(mortal, worker, 1)
    (letter,) = dead_letters(mortal.broker, "slow")
    assert (letter.reason, letter.exception) == ("command-refused", "conversations.errors.ProcessDied")


class _Killed(BaseException):
    """The process ends here."""
