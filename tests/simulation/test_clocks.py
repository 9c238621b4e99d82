"""Workers whose machines' clocks are wrong, and jump: nothing ends early, is refused, takes effect twice or is stuck."""

import json
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from conversations import Dialog, Service
from conversations.protocol.command import Command, Send, encode_command, topic_for
from conversations.testing import PeerDialog, Simulation
from conversations.testing.reading import visible
from tests.simulation.support import services
from tests.simulation.support.services import COUNTING, ECHO, REMINDERS, Add, Remind, Ring, Say, Total

WRONG = [timedelta(days=-2), timedelta(hours=-25), timedelta(seconds=-75), timedelta(seconds=75), timedelta(hours=25)]


def set_off(sim: Simulation, by: timedelta, *names: str) -> None:
    """Set the machines of these services wrong, and start their processes anew."""
    for name in names:
        sim.set_clock_off(name, by)
        sim.crash(name)


@pytest.mark.parametrize("by", WRONG, ids=str)
@pytest.mark.parametrize("whose", ["web", "counter"])
def test_a_dialog_of_a_minute_is_answered_whatever_a_workers_clock_says(by: timedelta, whose: str) -> None:
    """What the worker begins is stamped in the log's time, and what arrives is judged by it."""
    with Simulation(services.counter()) as sim:
        web = sim.peer("web")
        set_off(sim, by, whose)
        dialog = web.begin_dialog("counter", COUNTING, lifetime=timedelta(minutes=1))
        sim.advance(timedelta(seconds=1))
        dialog.send(Add(amount=1))
        sim.advance(timedelta(seconds=10))
        assert dialog.error is None
        assert dialog.received() == [Total(total=1)]
        sim.advance(timedelta(minutes=2))
        assert dialog.error is not None
        assert dialog.error.code == -8489
        assert sim.dead_letters("counter") == sim.dead_letters("web") == []


@pytest.mark.parametrize("by", [timedelta(days=1), timedelta(days=-1)], ids=str)
def test_a_clock_that_jumps_ends_no_dialog_early_and_lets_none_wait(by: timedelta) -> None:
    """A timer of a minute, and a lifetime of a day, of dialogs that were begun before."""
    with Simulation(services.bell(), services.counter()) as sim:
        reminder = sim.peer("web").begin_dialog("bell", REMINDERS)
        reminder.send(Remind(times=3))
        counting = sim.peer("web").begin_dialog("counter", COUNTING, lifetime=timedelta(hours=20))
        counting.send(Add(amount=1))
        sim.advance(timedelta(seconds=30))
        for name in ("web", "bell", "counter"):
            sim.set_clock_off(name, by)
        sim.advance(timedelta(minutes=1))
        for name in ("web", "bell", "counter"):
            sim.crash(name)
        sim.advance(timedelta(minutes=2))
        assert reminder.received() == [Ring(count=n + 1) for n in range(3)]
        counting.send(Add(amount=1))
        sim.advance(timedelta(minutes=1))
        assert counting.received() == [Total(total=1), Total(total=2)]
        assert counting.error is None
        sim.check_invariants()


def test_a_key_takes_effect_once_although_the_owners_clock_is_a_day_behind() -> None:
    """Nobody has written to its queue yet, so that only the command's own record tells what time it is."""
    with Simulation(services.counter()) as sim:
        web = sim.peer("web")
        dialog = web.begin_dialog("counter", COUNTING, lifetime=timedelta(days=3))
        sim.run()
        set_off(sim, timedelta(hours=-25), "web")
        pay(sim, dialog)
        sim.run()
        assert dialog.received() == [Total(total=1)]
        pay(sim, dialog)
        sim.run()
        assert dialog.received() == [Total(total=1)]


def pay(sim: Simulation, dialog: PeerDialog) -> None:
    """Send one message under a key."""
    conversation = UUID(dialog.id).bytes
    operation = Send("Add", "application/json", b'{"amount":1}')
    command = Command(
        sim.chance.random.randbytes(16), conversation, True, dialog.id, "pay-1", "web", sim.clock.now(), (operation,)
    )
    sim.broker.append_keyed("web", topic_for(command), dialog.id.encode(), encode_command(command))


@pytest.mark.parametrize("hours", [-23, 23])
def test_a_client_may_be_most_of_a_day_off(hours: int) -> None:
    """What it asks for is judged by when the log got it."""
    with Simulation(services.counter()) as sim:
        web = sim.peer("web")
        dialog = web.begin_dialog("counter", COUNTING, lifetime=timedelta(minutes=1))
        sim.run()
        operation = Send("Add", "application/json", b'{"amount":1}')
        issued = sim.clock.now() + hours * 3_600_000_000
        conversation = UUID(dialog.id).bytes
        command = Command(
            sim.chance.random.randbytes(16), conversation, True, dialog.id, "", "web", issued, (operation,)
        )
        sim.broker.append_keyed("web", topic_for(command), dialog.id.encode(), encode_command(command))
        sim.run()
        assert dialog.received() == [Total(total=1)]


def test_a_machine_whose_clock_is_off_is_named_once() -> None:
    """In an event with the figure; a handler sees the log's time."""
    service: Service[dict[str, Any]] = Service("late", accepts=[ECHO])
    seen: list[float] = []

    @service.on(Say)
    def say(body: Say, dialog: Dialog) -> None:
        seen.append(dialog.now.timestamp())

    with Simulation(service, partitions=1) as sim:
        set_off(sim, timedelta(minutes=-3), "late")
        for _ in range(3):
            sim.peer("web").begin_dialog("late", ECHO).send(Say(text="x"))
            sim.advance(timedelta(seconds=1))
        assert [abs(sim.clock.now() / 1e6 - at) < 4 for at in seen] == [True] * 3
        events = [json.loads(record.value() or b"{}") for record in visible(sim.broker, "conv.events")]
        assert [(it["event"], it["seconds"]) for it in events if it["event"] == "CLOCK_OFF"] == [("CLOCK_OFF", -180.0)]
