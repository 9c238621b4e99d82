"""Tests the sample of Service Broker's text on expense reports: what is counted, what is undone, and how the dialog ends."""

from collections.abc import Iterator
from typing import Any

import pytest

from conversations.testing import PeerDialog, Simulation
from examples.service_broker import expense_reports as them
from examples.service_broker.expense_reports import EXPENSES, ExpenseReport, Progress, payable, totals


@pytest.fixture
def sim() -> Iterator[Simulation]:
    them.accounts_down.clear()
    them.attempts.clear()
    with Simulation(payable, raise_failures=False, partitions=1) as sim:
        yield sim
        sim.check_invariants()


def talk(sim: Simulation, *messages: Any) -> PeerDialog:
    dialog = sim.peer("staff").begin_dialog("payable", EXPENSES)
    for message in messages:
        dialog.send(message)
    sim.run()
    return dialog


def test_the_fourth_failure_ends_the_dialog_with_error_500(sim: Simulation) -> None:
    them.accounts_down[7] = 100
    dialog = talk(sim, ExpenseReport(employee=7, amount=10), ExpenseReport(employee=7, amount=5))
    assert them.attempts == [(7, 1), (7, 2), (7, 3), (7, 4)]
    assert dialog.error is not None
    assert (dialog.error.code, dialog.error.description) == (500, "Unable to process message.")
    assert totals(dialog) == [], "all that the handler did before it failed is undone"
    letter = sim.dead_letters("payable")[0]
    assert (letter.reason, letter.sequence, letter.attempts) == ("handler-failed", 0, 4)
    assert b'"amount":10' in letter.value


def test_a_success_clears_the_count(sim: Simulation) -> None:
    them.accounts_down[7] = 3
    dialog = talk(sim, ExpenseReport(employee=7, amount=10))
    assert totals(dialog) == [10]
    them.accounts_down[7] = 3
    dialog.send(ExpenseReport(employee=7, amount=5))
    sim.run()
    assert them.attempts == [(7, number) for number in (1, 2, 3, 4)] * 2
    assert totals(dialog) == [10, 15]
    assert dialog.error is None


def test_another_dialog_is_not_delayed_and_its_failures_are_not_counted_together(sim: Simulation) -> None:
    them.accounts_down.update({7: 3, 8: 3})
    first = sim.peer("staff").begin_dialog("payable", EXPENSES)
    first.send(ExpenseReport(employee=7, amount=1))
    second = talk(sim, ExpenseReport(employee=8, amount=2))
    assert (totals(first), totals(second)) == ([1], [2])


def test_a_report_that_can_never_succeed_ends_its_dialog_at_once(sim: Simulation) -> None:
    dialog = talk(sim, ExpenseReport(employee=-1, amount=10))
    assert them.attempts == [(-1, 1)]
    assert dialog.error is not None
    assert (dialog.error.code, dialog.error.description) == (400, "No such employee.")


def test_a_message_of_no_use_is_dropped_and_the_dialog_continues(sim: Simulation) -> None:
    dialog = talk(sim, Progress(percent=-1), ExpenseReport(employee=7, amount=10))
    assert totals(dialog) == [10]
    assert dialog.error is None
    (letter,) = sim.dead_letters("payable")
    assert (letter.message_type, letter.message) == ("Progress", "-1 %")


@pytest.mark.usefixtures("sim")
def test_the_tour_prints_what_becomes_of_each_report(capsys: pytest.CaptureFixture[str]) -> None:
    them.tour()
    told = capsys.readouterr().out.splitlines()
    assert told[1:4] == [
        "fails three times  totals [10, 15]",
        "fails four times   totals [], error 500 Unable to process message.",
        "no employee        totals [], error 400 No such employee.",
    ]
