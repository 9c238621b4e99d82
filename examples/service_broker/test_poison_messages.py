"""Tests the strategies of Service Broker's texts on poison messages, each in the situation for which it is meant."""

import json
from datetime import timedelta
from typing import Any

import pytest

from conversations import Contract, Service
from conversations.protocol.topics import events_topic
from conversations.testing import PeerDialog, Simulation
from conversations.testing.reading import visible
from examples.service_broker import poison_messages as them
from examples.service_broker.poison_messages import ORDERS, SECOND, SLIDES, Done, Order, Slide


@pytest.fixture(autouse=True)
def database() -> None:
    them.profiles.clear()
    them.profiles.update(["ada", "grace"])
    them.mail.clear()


def talk(sim: Simulation, service: Service[Any], contract: Contract, *messages: Any) -> PeerDialog:
    dialog = sim.peer("web").begin_dialog(service.name, contract)
    for message in messages:
        dialog.send(message)
    sim.run()
    return dialog


def done(dialog: PeerDialog) -> list[str]:
    return [it.what for it in dialog.received() if isinstance(it, Done)]


def test_a_an_order_that_came_before_its_profile_is_tried_again_in_its_place() -> None:
    with Simulation(them.patient, raise_failures=False) as sim:
        dialog = talk(sim, them.patient, ORDERS, Order(customer="ada"), Order(customer="late"), Order(customer="grace"))
        other = talk(sim, them.patient, ORDERS, Order(customer="grace"))
        assert done(dialog) == ["ada"]
        assert done(other) == ["grace"], "no other dialog waits"
        them.profiles.add("late")
        sim.advance(3 * SECOND)
        assert done(dialog) == ["ada", "late", "grace"]
        assert sim.dead_letters("patient") == []


def test_b_an_order_that_never_works_is_kept_and_the_next_ones_go_on() -> None:
    wrong = Order(customer="ada", card_holder="bob")
    with Simulation(them.tolerant, raise_failures=False) as sim:
        dialog = talk(sim, them.tolerant, ORDERS, Order(customer="ada"), wrong, Order(customer="grace"))
        assert done(dialog) == ["ada", "grace"]
        (letter,) = sim.dead_letters("tolerant")
        assert (letter.sequence, letter.exception.rpartition(".")[2]) == (1, "CardMismatch")
        assert b'"card_holder":"bob"' in letter.value


def test_c_a_slide_nobody_can_show_ends_the_meeting_with_an_error() -> None:
    with Simulation(them.meeting, raise_failures=False) as sim:
        slides = Slide(number=2), Slide(number=3, media="text/html"), Slide(number=4)
        dialog = talk(sim, them.meeting, SLIDES, *slides)
        assert done(dialog) == ["slide 2"]
        assert dialog.error is not None
        assert (dialog.error.code, dialog.error.description) == (415, "Invalid media format.")


def test_d_the_queue_goes_off_and_somebody_is_called() -> None:
    with Simulation(them.careful, raise_failures=False, partitions=1) as sim:
        dialog = talk(sim, them.careful, ORDERS, Order(customer="ada"), Order(customer="late"), Order(customer="grace"))
        assert done(dialog) == ["ada"]
        assert them.mail == ["Queue of careful, partition 0, is off: UnknownCustomer: late"]
        told = [json.loads(it.value() or b"") for it in visible(sim.broker, events_topic(sim.broker.namespace))]
        (off,) = (it for it in told if it["event"] == "QUEUE_DISABLED")
        assert (off["service"], off["cause"], off["reason"]) == ("careful", "policy", "UnknownCustomer: late")
        waits = talk(sim, them.careful, ORDERS, Order(customer="grace"))
        assert done(waits) == []
        them.profiles.add("late")
        sim.turn_queue("careful", on=True)
        sim.run()
        assert done(dialog) == ["ada", "late", "grace"]
        assert done(waits) == ["grace"]
        assert len(them.mail) == 1


def test_once_more_three_seconds_later_and_then_without_it() -> None:
    with Simulation(them.combined, raise_failures=False) as sim:
        dialog = talk(sim, them.combined, ORDERS, Order(customer="nobody"), Order(customer="grace"))
        sim.advance(2 * SECOND)
        assert done(dialog) == []
        sim.advance(1 * SECOND)
        assert done(dialog) == ["grace"]
        assert [letter.attempts for letter in sim.dead_letters("combined")] == [2]


def test_a_timer_tries_what_was_kept_and_the_dialog_goes_on_meanwhile() -> None:
    with Simulation(them.by_timer) as sim:
        dialog = talk(sim, them.by_timer, ORDERS, Order(customer="late"), Order(customer="grace"))
        assert done(dialog) == ["grace"]
        sim.advance(timedelta(seconds=20))
        assert done(dialog) == ["grace"]
        sim.crash("by-timer")
        them.profiles.add("late")
        sim.advance(timedelta(seconds=20))
        assert done(dialog) == ["grace", "late"]


def test_asking_to_be_called_later_is_no_failure() -> None:
    with Simulation(them.polite, raise_failures=False) as sim:
        dialog = talk(sim, them.polite, ORDERS, Order(customer="late"), Order(customer="grace"))
        sim.advance(timedelta(hours=1))
        assert done(dialog) == []
        them.profiles.add("late")
        sim.advance(3 * SECOND)
        assert done(dialog) == ["late", "grace"]
        assert sim.dead_letters("polite") == []


@pytest.mark.parametrize(
    ("action", "more", "placed"),
    [
        ("retry", {}, ["ada"]),
        ("skip", {}, ["ada", "grace"]),
        ("edit", {"body": Order(customer="grace")}, ["ada", "grace", "grace"]),
        ("end", {"code": 404, "description": "There is no such customer."}, ["ada"]),
    ],
)
def test_an_operator_decides_and_the_dialog_goes_on(action: str, more: Any, placed: list[str]) -> None:
    assert them.operator(action, **more) == placed


def test_an_operator_retries_after_the_cause_is_gone() -> None:
    with Simulation(them.waiting, raise_failures=False) as sim:
        dialog = talk(sim, them.waiting, ORDERS, Order(customer="late"), Order(customer="grace"))
        assert done(dialog) == []
        them.profiles.add("late")
        (held,) = sim.parked("waiting")
        sim.decide(held, "retry")
        sim.run()
        assert done(dialog) == ["late", "grace"]
        assert sim.parked("waiting") == []


def test_the_tour_tells_what_becomes_of_each(capsys: pytest.CaptureFixture[str]) -> None:
    them.tour()
    told = capsys.readouterr().out
    assert "patient   at once ['ada'], then ['late', 'grace'], dead letters []" in told
    assert "meeting   at once ['slide 2'], then [], error 415, dead letters ['handler-failed'" in told
