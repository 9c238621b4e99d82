"""A handler begins a dialog with a service that the catalog does not name: it is refused, unless the dialog may wait for the service."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from conversations import Dialog, Service, UnknownService
from conversations.errors import KafkaUnreachable
from conversations.memory.connection import MemoryConnection
from conversations.protocol.command import Action
from conversations.protocol.envelope import Kind
from conversations.protocol.parked import Decision
from conversations.testing import Simulation
from tests.simulation.support import records
from tests.simulation.support.services import ECHO, Say


def forwarder(*, wait: bool) -> Service[dict[str, Any]]:
    """Passes each message of ``web`` on to ``shop``."""
    service = Service("desk", accepts=[ECHO], initiates=[ECHO], ignores=[Say])

    @service.on(Say, contract=ECHO)
    def say(body: Say, dialog: Dialog) -> None:
        if not dialog.is_initiator:
            dialog.group.begin_dialog("shop", ECHO, wait_for_service=wait).send(body)

    return service


def speak(sim: Simulation) -> None:
    sim.peer("web").begin_dialog("desk", ECHO).send(Say(text="hello"))


def test_a_misspelt_service_fails_the_handler_and_the_message_is_held() -> None:
    with Simulation(forwarder(wait=False)) as sim:
        speak(sim)
        with pytest.raises(UnknownService, match="'shop'") as raised:
            sim.run()
        assert any("sim.peer" in note for note in raised.value.__notes__)
    with Simulation(forwarder(wait=False), raise_failures=False) as sim:
        speak(sim)
        sim.run()
        (held,) = sim.parked("desk")
        assert "'shop'" in held.failure
        sim.peer("shop", accepts=[ECHO])
        sim.advance(timedelta(seconds=2))  # the catalog is looked at again
        sim.decide(held, Decision(Action.RETRY, "operator", "test"))
        sim.run()
        assert [it.kind for it in records.queued(sim, "shop") if it.kind is Kind.MESSAGE] == [Kind.MESSAGE]


def test_a_dialog_that_may_wait_begins_when_the_service_is_there() -> None:
    with Simulation(forwarder(wait=True)) as sim:
        speak(sim)
        sim.run()
        assert sim.parked("desk") == []
        sim.peer("shop", accepts=[ECHO])
        sim.advance(timedelta(minutes=2))
        assert [it.kind for it in records.queued(sim, "shop") if it.kind is Kind.MESSAGE] == [Kind.MESSAGE]


def failing(_: MemoryConnection) -> None:
    raise KafkaUnreachable("memory", "no answer")


def test_while_the_catalog_cannot_be_read_no_service_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    look: Callable[[MemoryConnection], None] = MemoryConnection.look_at_catalog
    with Simulation(forwarder(wait=False)) as sim:
        speak(sim)
        monkeypatch.setattr(MemoryConnection, "look_at_catalog", failing)
        monkeypatch.setattr(MemoryConnection, "partitions", lambda self, service: self._known.get(service))
        for worker in [sim.worker("desk"), sim.worker("web")]:
            look(worker.context.connection)  # type: ignore[arg-type]  # a simulation's connections are in memory
        sim.run()
        assert sim.parked("desk") == []
