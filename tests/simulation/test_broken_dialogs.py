"""A dialog that breaks is told to somebody: to a handler, to a client that waits, or to the operators."""

import json
import logging
from datetime import timedelta
from typing import Any

import pytest

from conversations import Contract, Dialog, MessageType, PeerError, PoisonPolicy, Service
from conversations.protocol.codes import LIFETIME, NOT_CONVERSING
from conversations.protocol.command import Begin, End, Send
from conversations.protocol.envelope import Envelope, Kind
from conversations.protocol.events import ConversationId, DialogBroken
from conversations.protocol.topics import QUEUE, events_topic, service_topic
from conversations.testing import Simulation
from conversations.testing.reading import visible
from conversations.worker.broken_dialogs import KINDS, PAUSE, BrokenDialogs
from tests.simulation.support import records
from tests.simulation.support.services import ECHO, Say

SILENT = Contract("Silent", sent_by_any=[Say], lifetime=timedelta(minutes=10))
MINUTE = timedelta(microseconds=PAUSE)
HELLO = Send("Say", "application/json", Say(text="hello").model_dump_json().encode())


def events(sim: Simulation, name: str = "DIALOG_BROKEN") -> list[dict[str, Any]]:
    found = [json.loads(record.value() or b"") for record in visible(sim.broker, events_topic(sim.broker.namespace))]
    return [event for event in found if event["event"] == name]


def facts(sim: Simulation) -> list[tuple[object, ...]]:
    """Who reported which broken dialog with whom, and who found the error."""
    told = ("service", "conversation", "code", "by", "peer", "dialogs")
    return [tuple(event[name] for name in told) for event in events(sim)]


def deaf(*contracts: Contract, name: str = "deaf") -> Service[Any]:
    """Make a service without an on_error handler, whose policy ends dialogs."""
    return Service(
        name, accepts=contracts, initiates=contracts, ignores=["Say"], poison=[PoisonPolicy.service_broker()]
    )


def refused(sim: Simulation, number: int) -> str:
    """Send the first message of a dialog under a contract that its target does not accept; return the id of the dialog."""
    conversation = records.drawn(sim, number)
    prefix = records.first_of(sim, conversation, "deaf", "Gossip")
    records.post(sim, records.message(prefix, 0, "Say", b"{}"))
    return str(conversation)


# -- what is reported ----------------------------------------------------------------------------------------------------


def test_an_expired_dialog_without_a_handler_is_reported_by_its_own_side(caplog: pytest.LogCaptureFixture) -> None:
    with Simulation(deaf(SILENT)) as sim, caplog.at_level(logging.WARNING, "conversations.worker"):
        dialog = sim.peer("web").begin_dialog("deaf", SILENT)
        dialog.send(Say(text="anybody?"))
        sim.advance(timedelta(minutes=11))
        assert facts(sim) == [("deaf", dialog.id, LIFETIME.number, "deaf", "web", 1)]  # the peer has a handler
        assert sim.worker("deaf").counts.broken == 1
        assert sim.worker("web").counts.broken == 0
    assert [it.levelname for it in caplog.records if dialog.id in it.getMessage()] == ["WARNING"]


def test_a_refused_dialog_is_reported_by_the_service_that_refuses_it() -> None:
    with Simulation(deaf(SILENT)) as sim:
        sim.broker.create_service("stranger", 1)
        name = refused(sim, 1)
        sim.run()
        assert facts(sim) == [("deaf", name, -8408, "deaf", "stranger", 1)]


def test_an_error_of_the_peer_without_a_handler_is_reported_with_the_peer_as_its_finder() -> None:
    with Simulation(deaf(ECHO), deaf(name="mute")) as sim:
        conversation = records.drawn(sim)
        records.command(sim, "deaf", conversation, Begin("mute", "Echo"), HELLO)
        sim.run()
        assert sorted(facts(sim)) == [
            ("deaf", str(conversation), -8408, "mute", "mute", 1),
            ("mute", str(conversation), -8408, "mute", "deaf", 1),
        ]


def test_an_error_that_answers_a_side_that_has_ended_is_reported() -> None:
    """Service Broker drops it: the application sent and ended, and never hears that nobody took its message."""
    with Simulation(deaf(ECHO), deaf(name="mute")) as sim:
        conversation = records.drawn(sim)
        records.command(sim, "deaf", conversation, Begin("mute", "Echo"), HELLO, End())
        sim.run()
        assert ("deaf", str(conversation), -8408, "mute", "mute", 1) in facts(sim)
        assert sim.open_dialogs() == []


def test_an_error_that_comes_before_the_first_message_is_reported() -> None:
    """The messages before it are lost with the dialog, and no handler hears of a dialog that never began."""
    with Simulation(deaf(SILENT)) as sim:
        sim.broker.create_service("stranger", 1)
        conversation = records.drawn(sim)
        prefix = records.first_of(sim, conversation, "deaf", "Silent")
        records.post(sim, records.message(prefix, 1, "Say", HELLO.body))
        sim.run()
        records.post(sim, Envelope(prefix, Kind.ERROR, -1, -1, -1, code=-8462, description="It is over."))
        sim.run()
        assert facts(sim) == [("deaf", str(conversation), -8462, "stranger", "stranger", 1)]
        assert sim.open_dialogs() == []


def test_an_end_that_nobody_acknowledged_in_the_lifetime_is_reported() -> None:
    with Simulation(deaf(SILENT)) as sim:
        sim.broker.create_service("away", 1)
        conversation = records.drawn(sim)
        records.command(sim, "deaf", conversation, Begin("away", "Silent"), HELLO, End())
        sim.advance(timedelta(minutes=11))
        assert facts(sim) == [("deaf", str(conversation), LIFETIME.number, "deaf", "away", 1)]


def test_a_breach_at_a_service_without_a_handler_is_reported() -> None:
    later = Contract("Silent", sent_by_any=[MessageType("Say", body="bytes")], lifetime=timedelta(minutes=10))
    with Simulation(deaf(SILENT)) as sim:
        dialog = sim.peer("web").begin_dialog("deaf", later)
        dialog.send(b"{", type="Say")
        sim.run()
        assert dialog.error is not None
        assert facts(sim) == [("deaf", dialog.id, -9615, "deaf", "web", 1)]
        assert dialog.error.description in events(sim)[0]["why"]


# -- what is not reported ------------------------------------------------------------------------------------------------


def test_a_dialog_whose_handler_is_told_is_not_reported() -> None:
    service = Service[dict[str, Any]]("keen", accepts=[SILENT], ignores=["Say"])
    told = []

    @service.on_error()
    def broken(error: PeerError, dialog: Dialog) -> None:
        told.append((error.name, error.error_class))

    with Simulation(service) as sim:
        sim.peer("web").begin_dialog("keen", SILENT).send(Say(text="anybody?"))
        sim.advance(timedelta(minutes=11))
        assert told == [("LIFETIME", "recoverable")]
        assert facts(sim) == []


def test_an_undeliverable_envelope_has_an_event_of_its_own() -> None:
    with Simulation(deaf(ECHO)) as sim:
        sim.broker.create_service("small", 1)
        sim.broker.limits[service_topic(sim.broker.namespace, "small", QUEUE)] = 4_000
        conversation = records.drawn(sim)
        large = Send("Say", "application/json", Say(text="x" * 5_000).model_dump_json().encode())
        records.command(sim, "deaf", conversation, Begin("small", "Echo"), large)
        sim.run()
        assert [it["conversation"] for it in events(sim, "UNDELIVERABLE")] == [str(conversation)]
        sim.advance(timedelta(minutes=15))
        assert sim.open_dialogs() == []
        assert facts(sim) == []


def test_an_error_of_an_application_is_not_reported() -> None:
    with Simulation(deaf(SILENT)) as sim:
        dialog = sim.peer("web").begin_dialog("deaf", SILENT)
        dialog.send(Say(text="hello"))
        sim.run()
        dialog.end_with_error(1404, "unknown customer")
        sim.run()
        assert sim.open_dialogs() == []
        assert facts(sim) == []


# -- floods --------------------------------------------------------------------------------------------------------------


def test_a_flood_of_broken_dialogs_is_one_event_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """A peer may break as many dialogs as it begins. They are all counted."""
    with Simulation(deaf(SILENT), partitions=1) as sim, caplog.at_level(logging.WARNING, "conversations.worker"):
        sim.broker.create_service("stranger", 1)
        first = last = refused(sim, 0)
        sim.run()
        for number in range(1, 500):
            last = refused(sim, number)
            if number % 10 == 0:
                sim.run()
        sim.run()
        assert [(it["conversation"], it["dialogs"]) for it in events(sim)] == [(first, 1)]
        sim.advance(MINUTE)
        assert [(it["conversation"], it["dialogs"]) for it in events(sim)] == [(first, 1), (last, 499)]
        assert sim.worker("deaf").counts.broken == 500
        sim.advance(3 * MINUTE)
        assert len(events(sim)) == 2
        refused(sim, 1_000)
        sim.run()
        assert [it["dialogs"] for it in events(sim)] == [1, 499, 1]
    assert sum("broke" in it.getMessage() for it in caplog.records) == 3


def test_codes_that_a_peer_invents_are_one_kind() -> None:
    with Simulation(deaf(SILENT), partitions=1) as sim:
        sim.broker.create_service("stranger", 1)
        for number in range(20):
            conversation = records.drawn(sim, number)
            prefix = records.first_of(sim, conversation, "deaf", "Silent")
            records.post(sim, records.message(prefix, 0, "Say", b'{"text": ""}'))
            records.post(sim, Envelope(prefix, Kind.ERROR, -1, -1, -1, code=-20_000 - number, description="invented"))
            sim.run()
        assert [(it["code"], it["dialogs"]) for it in events(sim)] == [(-20_000, 1)]
        sim.advance(MINUTE)
        assert [(it["code"], it["dialogs"]) for it in events(sim)] == [(-20_000, 1), (-20_019, 19)]


def noted(peer: str, code: int = NOT_CONVERSING.number) -> DialogBroken:
    return DialogBroken(ConversationId("00000000-0000-7000-8000-000000000000"), code, "shop", peer, "why", 1)


def test_only_so_many_kinds_are_remembered() -> None:
    table = BrokenDialogs()
    for number in range(2 * KINDS):
        table.note(noted(f"peer-{number}"))
    assert len(table) == KINDS
    assert len(list(table.due(0))) == KINDS
    assert list(table.due(PAUSE)) == []
    assert len(table) == 0


def test_a_clock_that_was_set_back_does_not_silence_reports() -> None:
    """The worker's time is set back if it was ahead of log time."""
    table = BrokenDialogs()
    table.note(noted("web"))
    assert [it.dialogs for it in table.due(10 * PAUSE)] == [1]
    table.note(noted("web"))
    assert [it.dialogs for it in table.due(5 * PAUSE)] == [1]
