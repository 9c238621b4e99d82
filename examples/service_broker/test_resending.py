"""Tests the scenario of the text on sending messages again: what is pending arrives once, in order, on a new dialog."""

from datetime import timedelta

import pytest

from conversations.testing import Simulation
from examples.service_broker import resending as them
from examples.service_broker.resending import MEASURING, Measure, archive, plant


@pytest.fixture(autouse=True)
def nothing_yet() -> None:
    them.errors.clear()
    them.archived.clear()


def test_what_is_pending_arrives_once_on_a_new_dialog(capsys: pytest.CaptureFixture[str]) -> None:
    them.tour()
    assert capsys.readouterr().out.splitlines() == [
        "while the archive runs      archived [20, 21]",
        "the dialog's life is over   error -8489, pending [22, 23]",
        "the archive is back         archived [20, 21, 22, 23]",
        "dead letters                0",
    ]


def test_without_an_answer_the_readings_are_letters_of_the_plant() -> None:
    with Simulation(plant) as sim:
        sim.broker.create_service("archive", 3)
        sim.peer("sensors").begin_dialog("plant", MEASURING).send(Measure(celsius=[20]))
        sim.advance(timedelta(minutes=22))
        (letter,) = sim.dead_letters("plant")
        assert (letter.reason, letter.code, letter.is_uncertain) == ("undeliverable", -8489, True)
        sim.deploy(archive)
        sim.run()
        assert them.archived == []
        sim.check_invariants()
