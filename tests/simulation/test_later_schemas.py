"""Records that a newer release writes with a later schema: they are read by the schema in the catalog."""

import copy
import json
from typing import Any

import pytest

from conversations import schemas
from conversations.errors import KafkaUnreachable
from conversations.memory.connection import MemoryConnection
from conversations.protocol import command, letters
from conversations.protocol.command import Begin, Command, Send
from conversations.protocol.envelope import Envelope
from conversations.protocol.envelope_avro import to_fields
from conversations.protocol.registry import Schema
from conversations.protocol.topics import COMMANDS, QUEUE
from conversations.testing import Simulation
from tests.simulation.support import records
from tests.simulation.support.services import ECHO, echo


def later(name: str) -> dict[str, Any]:
    source = copy.deepcopy(schemas.load(name, schemas.newest(name)))
    source["fields"].append({"name": "priority", "type": "int", "default": 5})
    return source


LATER_ENVELOPE, LATER_COMMAND = Schema(later("envelope")), Schema(later("command"))


def publish(sim: Simulation) -> None:
    """Write the schemas to the catalog, as ``conversations apply`` of the newer release does."""
    for name, schema in (("envelope", LATER_ENVELOPE), ("command", LATER_COMMAND)):
        sim.broker.schemas[schema.fingerprint.hex()] = json.dumps(later(name))


def post(sim: Simulation, envelope: Envelope) -> None:
    """Append an envelope of the later schema to its recipient's queue."""
    value = LATER_ENVELOPE.encode(to_fields(envelope) | {"priority": 9})
    sim.broker.append_keyed(envelope.prefix.to_service, QUEUE, envelope.prefix.reply_key.encode(), value)


def said(sim: Simulation) -> list[bytes]:
    return [it.body for it in records.queued(sim, "stranger") if it.body]


def message(sim: Simulation, number: int, first: Any = None) -> Any:
    prefix = first or records.first_of(sim, records.drawn(sim, 1), "echo", "Echo")
    return records.message(prefix, number, "Say", b'{"text":"%d"}' % number)


def test_an_envelope_of_a_later_schema_is_handled_once_the_catalog_has_the_schema() -> None:
    with Simulation(echo()) as sim:
        sim.peer("stranger")
        publish(sim)
        first = message(sim, 0)
        post(sim, message(sim, 1, first.prefix))  # it is held as a row until message 0 arrives
        post(sim, first)
        records.post(sim, message(sim, 2, first.prefix))
        sim.run()
        assert len(said(sim)) == 3
        assert sim.dead_letters("echo") == []


def test_without_the_schema_the_record_is_set_aside_with_its_bytes() -> None:
    with Simulation(echo()) as sim:
        sim.peer("stranger")
        post(sim, message(sim, 0))
        sim.run()
        (letter,) = sim.dead_letters("echo")
        assert letter.reason == letters.SET_ASIDE
        assert letter.value.startswith(LATER_ENVELOPE.head)
        assert LATER_ENVELOPE.fingerprint.hex() in letter.message


def test_a_schema_of_the_catalog_that_cannot_be_used_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    with Simulation(echo()) as sim:
        sim.peer("stranger")
        publish(sim)
        sim.broker.schemas |= {
            "00": "{",
            "01": "[" * 100_000,
            "02": '"nonsense"',
            "03": "7",
            "04": '"' + "x" * 70_000 + '"',
        }
        post(sim, message(sim, 0))
        sim.run()
        assert len(said(sim)) == 1
        assert len([line for line in caplog.messages if "is left out" in line]) == 5


def test_while_the_catalog_cannot_be_read_the_record_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    look, left = MemoryConnection.look_at_catalog, [3]

    def fails(connection: MemoryConnection) -> None:
        if left[0]:
            left[0] -= 1
            raise KafkaUnreachable("memory", "no answer")
        look(connection)

    with Simulation(echo()) as sim:
        sim.peer("stranger")
        publish(sim)
        monkeypatch.setattr(MemoryConnection, "look_at_catalog", fails)
        monkeypatch.setattr(MemoryConnection, "partitions", lambda self, name: self.broker.services.get(name))
        post(sim, message(sim, 0))
        sim.run()
        assert left == [0]
        assert len(said(sim)) == 1
        assert sim.dead_letters("echo") == []


def test_bytes_without_the_marker_are_set_aside_although_the_catalog_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(_: MemoryConnection) -> None:
        raise KafkaUnreachable("memory", "no answer")

    with Simulation(echo()) as sim:
        monkeypatch.setattr(MemoryConnection, "look_at_catalog", fails)
        monkeypatch.setattr(MemoryConnection, "partitions", lambda self, name: self.broker.services.get(name))
        sim.broker.append_keyed("echo", QUEUE, b"key", b"garbage")
        sim.run()
        assert [it.reason for it in sim.dead_letters("echo")] == [letters.SET_ASIDE]


def test_a_command_of_a_later_schema_takes_effect() -> None:
    with Simulation(echo()) as sim:
        peer = sim.peer("web")
        peer.begin_dialog("echo", ECHO)
        publish(sim)
        conversation = records.drawn(sim, 7)
        asked = Command(
            bytes(16), conversation.bytes, True, str(conversation), "", "web", sim.clock.now(),
            (Begin("echo", "Echo"), Send("Say", "application/json", b'{"text":"x"}')),
        )  # fmt: skip
        fields: dict[str, Any] = {name: getattr(asked, name) for name in Command.__slots__}
        fields["operations"] = [command._operation_fields(it) for it in asked.operations]
        value = LATER_COMMAND.encode(fields | {"priority": 1})
        sim.broker.append_keyed("web", COMMANDS, str(conversation).encode(), value)
        sim.run()
        assert sim.dead_letters("web") == []
        assert [it.body for it in records.queued(sim, "echo") if it.body] == [b'{"text":"x"}']
