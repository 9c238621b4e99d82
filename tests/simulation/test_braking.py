"""A release that fails on everything: the worker goes on one by one, gives nothing up, and recovers by itself."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from conversations import Brake, Dialog, PoisonPolicy, Service, Then, WorkerSettings
from conversations.testing import PeerDialog, Simulation
from tests.simulation.services import ECHO, Say
from tests.simulation.test_decisions import events
from tests.simulation.test_parking import SECOND, Moody, texts

BRAKE = Brake(dialogs=5, share=0.5)
SETTINGS = WorkerSettings(patience=timedelta(0), revocation=timedelta(0), deaths=1_000_000, brake=BRAKE)
STRICT = PoisonPolicy(delays=[timedelta(0)] * 3, then=Then.END_DIALOG)


class Deployed:
    """A service whose release is broken until it is mended; it knows what it handled and how often it was tried."""

    def __init__(self, policy: PoisonPolicy = STRICT) -> None:
        self.broken = True
        self.tried = 0
        self.service: Service[dict[str, Any]] = Service("moody", accepts=[ECHO], poison=[policy])

        @self.service.on(Say)
        def say(body: Say, dialog: Dialog) -> None:
            self.tried += 1
            if self.broken and not body.text.startswith("good"):
                raise KeyError("score")
            dialog.send(body)


def talk(sim: Simulation, count: int, *said: str) -> list[PeerDialog]:
    dialogs = [sim.peer("web").begin_dialog("moody", ECHO) for _ in range(count)]
    for dialog in dialogs:
        for text in said:
            dialog.send(Say(text=text))
    sim.run()
    return dialogs


def test_a_broken_deploy_does_not_dead_letter_the_day() -> None:
    deployed = Deployed()
    with Simulation(deployed.service, raise_failures=False, settings=SETTINGS) as sim:
        dialogs = talk(sim, 200, "a", "b")
        given_up = len(sim.dead_letters("moody"))
        assert given_up <= 2 * BRAKE.dialogs, "those that failed before it was noticed"
        (event,) = events(sim, "BRAKE_ON")
        assert event["dialogs"] == BRAKE.dialogs
        tried = deployed.tried
        sim.advance(60 * SECOND)
        assert len(sim.dead_letters("moody")) == given_up
        assert deployed.tried - tried == 60, "one a second"
        assert events(sim, "BRAKE_OFF") == []
        deployed.broken = False
        sim.advance(1 * SECOND)
        assert len(events(sim, "BRAKE_OFF")) == 1
        well = [dialog for dialog in dialogs if dialog.error is None]
        assert len(well) >= 200 - given_up
        assert all(texts(dialog) == ["a", "b"] for dialog in well)
        assert sim.parked("moody") == []
        sim.check_invariants()


def test_some_failing_dialogs_among_many_good_ones_are_no_reason() -> None:
    deployed = Deployed()
    with Simulation(deployed.service, raise_failures=False, settings=SETTINGS) as sim:
        for _ in range(10):
            talk(sim, 4, "good", "good", "good")
            talk(sim, 1, "bad")
        assert events(sim, "BRAKE_ON") == []
        assert len(sim.dead_letters("moody")) == 10


def test_one_that_succeeds_ends_it_whatever_the_others_do() -> None:
    deployed = Deployed()
    with Simulation(deployed.service, raise_failures=False, settings=SETTINGS) as sim:
        talk(sim, 10, "bad")
        assert len(events(sim, "BRAKE_ON")) == 1
        (good,) = talk(sim, 1, "good")
        assert texts(good) == [], "it waits its turn"
        sim.advance(30 * SECOND)
        assert texts(good) == ["good"]
        assert len(events(sim, "BRAKE_OFF")) >= 1


def test_a_restart_begins_without_the_brake_and_loses_nothing() -> None:
    deployed = Deployed()
    with Simulation(deployed.service, raise_failures=False, settings=SETTINGS) as sim:
        dialogs = talk(sim, 50, "a", "b")
        deployed.broken = False
        sim.crash("moody")
        sim.run()
        well = [dialog for dialog in dialogs if dialog.error is None]
        assert len(well) >= 40
        assert all(texts(dialog) == ["a", "b"] for dialog in well)
        sim.check_invariants()


def test_a_queue_that_is_off_is_not_tried() -> None:
    deployed = Deployed()
    with Simulation(deployed.service, raise_failures=False, settings=SETTINGS) as sim:
        talk(sim, 50, "a")
        sim.turn_queue("moody", on=False)
        sim.run()
        tried = deployed.tried
        deployed.broken = False
        sim.advance(60 * SECOND)
        assert deployed.tried == tried
        sim.turn_queue("moody", on=True)
        sim.advance(2 * SECOND)
        assert sim.parked("moody") == []
        sim.check_invariants()


def test_without_a_brake_everything_is_given_up_on() -> None:
    deployed = Deployed()
    with Simulation(deployed.service, raise_failures=False, settings=replace(SETTINGS, brake=None)) as sim:
        talk(sim, 50, "a")
        assert len(sim.dead_letters("moody")) == 50


def test_later_is_no_failure() -> None:
    moody = Moody()
    with Simulation(moody.service, raise_failures=False, settings=SETTINGS) as sim:
        talk(sim, 20, "a later")
        assert events(sim, "BRAKE_ON") == []
