"""Deciding is a right of its own: operators decide through the topic of decisions, and clients speak through the topic of commands."""

import json
from collections.abc import Iterator
from os import urandom
from typing import Any, get_args

import pytest

from conversations import Service, WorkerSettings
from conversations.memory.broker import MemoryBroker
from conversations.memory.clock import SystemClock
from conversations.memory.connection import MemoryConnection
from conversations.ports import Out
from conversations.protocol import codes, rows
from conversations.protocol.command import (
    GOES_TO,
    Begin,
    Cleanup,
    Command,
    End,
    EndWithError,
    Operation,
    Piece,
    Report,
    Resend,
    Resolve,
    Reuse,
    Send,
    SendFromPieces,
    SetTimer,
    Settle,
    Switch,
    Tick,
    encode_command,
    to_partition,
    topic_for,
)
from conversations.protocol.partition_row import Decided, decode_decided, encode_decided
from conversations.protocol.topics import COMMANDS, DECISIONS, events_topic, key_in, service_topic
from conversations.scheduler import Inline
from conversations.stores.memory import MemoryStores
from conversations.testing.reading import dead_letters, state_of, visible
from conversations.worker import Worker
from tests.simulation.support.services import ECHO, Heard, Say
from tests.support.waiting import until

PARTITIONS = 2
CONVERSATION = bytes(range(16))
OFF, ON = Switch(on=False, reason="test"), Switch(on=True, reason="test")
EACH: dict[type[Operation], Operation] = {
    Begin: Begin("desk", ECHO.name), Send: Send("Say", "application/json", b"{}"), Reuse: Reuse("desk", ECHO.name, 1), End: End(),
    EndWithError: EndWithError(7, "No."), SetTimer: SetTimer(1), Tick: Tick(), Cleanup: Cleanup(), Resend: Resend(),
    Resolve: Resolve("MESSAGE", 0, 0, "SKIP"), Switch: OFF, Settle: Settle((), "discarded"), Report: Report(),
    Piece: Piece(0, 2, b"x"),
}  # fmt: skip


class Desk:
    """A service on the log in memory, whose worker is stepped and may die."""

    def __init__(self) -> None:
        self.broker = MemoryBroker(SystemClock())
        self.broker.create_service("desk", PARTITIONS)
        self.worker = self.start()

    def start(self, batch: int = 500) -> Worker:
        """Make a worker and step it until its partitions are open."""
        self.worker = self.made(batch)
        until(lambda: (self.worker.step(), len(self.worker.partitions) == PARTITIONS)[1], pause=0)
        return self.worker

    def made(self, batch: int = 500) -> Worker:
        """Make a worker."""
        return Worker(
            Service("desk", initiates=[ECHO], accepts=[ECHO], ignores=[Say, Heard]),
            lambda: MemoryConnection(self.broker, "desk"), MemoryStores(), scheduler=Inline(), settings=WorkerSettings(batch=batch),
        )  # fmt: skip

    def die(self) -> None:
        """Let the worker vanish like a killed process."""
        connection = self.worker.context.connection
        assert isinstance(connection, MemoryConnection)
        connection.vanish()

    def command(self, *operations: Operation, number: int = 0) -> Command:
        where = (number, PARTITIONS)
        if isinstance(operations[0], Switch | Settle | Tick):
            made = to_partition(where, operations[0], "me", urandom(16), self.broker.clock.now())
            made.operations = operations
            return made
        return Command(urandom(16), CONVERSATION, True, key_in(*where), "", "me", self.broker.clock.now(), operations)

    def write(self, kind: str, command: Command, number: int = 0) -> None:
        topic = service_topic(self.broker.namespace, "desk", kind)
        self.broker.append(Out(topic, number, command.key.encode(), encode_command(command)))

    def work(self) -> None:
        """Step until nothing is left to do."""
        until(lambda: not self.worker.step() and not self.worker.busy(), pause=0)

    def events(self, name: str) -> list[dict[str, Any]]:
        records = visible(self.broker, events_topic(self.broker.namespace))
        return [event for record in records if (event := json.loads(record.value() or b""))["event"] == name]

    def refused(self) -> list[tuple[int, str]]:
        return [(event["code"], event["why"]) for event in self.events("COMMAND_REFUSED")]

    def off(self, number: int = 0) -> str:
        return self.worker.partitions[number].progress.row.off

    def position(self, number: int = 0) -> int | None:
        row = state_of(self.broker, "desk")[number].get(rows.DECIDED)
        return None if row is None else decode_decided(row).position


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk()
    yield desk
    desk.worker.close()


def test_every_operation_has_its_topic() -> None:
    assert GOES_TO.keys() - {SendFromPieces} == EACH.keys() == set(get_args(Operation))
    assert set(GOES_TO.values()) == {COMMANDS, DECISIONS}


@pytest.mark.parametrize("operation", [it for kind, it in EACH.items() if GOES_TO[kind] == DECISIONS])
def test_a_decision_through_commands_is_refused_and_does_nothing(desk: Desk, operation: Operation) -> None:
    command = desk.command(operation)
    desk.write(COMMANDS, command)
    desk.work()
    ((code, why),) = desk.refused()
    assert code == codes.COMMAND_MISPLACED.number
    assert "its tool is of an older release, or its writer has no right to decide" in why
    assert service_topic(desk.broker.namespace, "desk", DECISIONS) in why
    assert not desk.off()
    assert [(it.reason, it.code) for it in dead_letters(desk.broker, "desk")] == [("command-refused", code)]
    assert desk.position() is None


@pytest.mark.parametrize("operation", [it for kind, it in EACH.items() if GOES_TO[kind] == COMMANDS])
def test_a_clients_command_through_decisions_is_refused_and_does_nothing(desk: Desk, operation: Operation) -> None:
    desk.write(DECISIONS, desk.command(operation))
    desk.work()
    ((code, why),) = desk.refused()
    assert code == codes.COMMAND_MISPLACED.number
    assert f"write it to {service_topic(desk.broker.namespace, 'desk', COMMANDS)}" in why
    assert {key[:1] for key in state_of(desk.broker, "desk")[0]} == {rows.PARTITION, rows.DECIDED}


@pytest.mark.parametrize("operation", [End(), EndWithError(7, "No."), EACH[Send], EACH[Begin]])
def test_what_an_operator_says_on_a_dialog_is_a_decision(operation: Operation) -> None:
    """The event of ``Report`` names the operator."""
    made = Command(b"", CONVERSATION, True, "k", "", "me", 0, (operation, Report()))
    assert topic_for(made) == DECISIONS
    made.operations = (operation,)
    assert topic_for(made) == COMMANDS


def test_a_client_turns_no_queue_off(desk: Desk) -> None:
    """Its command is carried out when the same is a decision."""
    desk.write(COMMANDS, desk.command(OFF))
    desk.work()
    assert not desk.off()
    desk.write(DECISIONS, desk.command(OFF))
    desk.work()
    assert desk.off() == "operator"


def test_an_operator_speaks_for_no_client(desk: Desk) -> None:
    """A begin is carried out when it comes through commands, or is a decision that its event names."""
    begin = EACH[Begin]
    desk.write(DECISIONS, desk.command(begin))
    desk.work()
    assert not [key for key in state_of(desk.broker, "desk")[0] if key.startswith(rows.ENDPOINT)]
    desk.write(COMMANDS, desk.command(begin))
    desk.work()
    assert [key for key in state_of(desk.broker, "desk")[0] if key.startswith(rows.ENDPOINT)]


def test_a_queue_is_turned_off_and_on_through_decisions(desk: Desk) -> None:
    desk.write(DECISIONS, desk.command(OFF))
    desk.work()
    assert desk.off() == "operator"
    desk.write(DECISIONS, desk.command(ON))
    desk.work()
    assert not desk.off()
    assert desk.refused() == []
    assert [desk.position(number) for number in range(PARTITIONS)] == [2, None]


def test_a_decision_in_a_wrong_partition_is_refused_and_not_forwarded(desk: Desk) -> None:
    """A worker has no right to write decisions."""
    desk.write(DECISIONS, desk.command(OFF, number=1), number=0)
    desk.work()
    ((code, why),) = desk.refused()
    assert code == codes.COMMAND_MISPLACED.number
    assert "is in partition 0" in why
    assert "its key belongs to 1" in why
    assert (desk.off(0), desk.off(1)) == ("", "")


def test_a_decision_is_carried_out_once_though_workers_die(desk: Desk) -> None:
    desk.write(DECISIONS, desk.command(OFF))
    desk.work()
    desk.write(DECISIONS, desk.command(ON))
    desk.work()
    for _ in range(3):
        desk.die()
        desk.start()
        desk.work()
    assert len(desk.events("QUEUE_DISABLED")) == len(desk.events("QUEUE_ENABLED")) == 1
    assert not desk.off()


def test_what_was_decided_before_a_partition_has_a_position_is_carried_out(desk: Desk) -> None:
    """An older release owned the partition before; it knew neither the topic nor the row."""
    desk.die()
    desk.write(DECISIONS, desk.command(OFF))
    desk.start()
    desk.work()
    assert desk.off() == "operator"
    assert desk.position() == 1


def test_a_decision_does_not_wait_for_a_flood_of_commands(desk: Desk) -> None:
    desk.die()
    desk.start(batch=10)
    for _ in range(200):
        desk.write(COMMANDS, desk.command(Tick()))
    desk.worker.step()
    desk.write(DECISIONS, desk.command(OFF))
    until(lambda: (desk.worker.step(), desk.off())[1], pause=0)
    assert desk.worker.partitions[0].progress.row.commands < 50
    desk.work()
    assert desk.worker.partitions[0].progress.row.commands == 200


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (encode_decided(Decided(0, "another topic")), "the decisions topic was re-created"),
        (b"short", "cannot be understood"),
    ],
)
def test_a_position_that_does_not_fit_sets_the_partition_aside(desk: Desk, row: bytes, why: str) -> None:
    desk.die()
    state = service_topic(desk.broker.namespace, "desk", "state")
    desk.broker.append(Out(state, 0, rows.DECIDED, row))
    desk.worker = desk.made()
    until(lambda: (desk.worker.step(), desk.events("PARTITION_SET_ASIDE"))[1], pause=0)
    (event,) = desk.events("PARTITION_SET_ASIDE")
    assert why in event["why"]
