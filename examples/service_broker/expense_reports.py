"""Expense reports that fail again and again: ``python examples/service_broker/expense_reports.py``.

The situation is from the text of Service Broker "Handling Poison Messages". Its sample rolls back to a savepoint, counts the failures of a
conversation in a table (TrackMessage), deletes the count after a success (ClearMessageTracking), and ends the conversation with error 500.
Here the worker does all of this, and the service only declares its policies. The text also asks three questions before one counts
failures. Each of them is a policy here.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from pydantic import BaseModel

from conversations import Contract, Dialog, PoisonPolicy, Service, Then
from conversations.testing import PeerDialog, Simulation


class ExpenseReport(BaseModel):
    employee: int
    amount: int


class Progress(BaseModel):
    """Says how far the employee is. It is of no use when the next one is there."""

    percent: int


class Booked(BaseModel):
    total: int


class Ledger(BaseModel):
    total: int = 0
    percent: int = 0


class NotAnEmployee(Exception):
    """The number of the employee is not one that is given to anybody, and never will be."""


EXPENSES = Contract("Expenses", sent_by_initiator=[ExpenseReport, Progress], sent_by_target=[Booked])

payable = Service("payable", accepts=[EXPENSES], state=Ledger, poison=[
    # Can the content say that the message never succeeds? Then one failure is enough, and the sender is told why.
    PoisonPolicy(exception=NotAnEmployee, delays=[], then=Then.END_DIALOG, code=400, description="No such employee."),
    # Is the message of no use soon? Then it is dropped after any failure, and the dialog continues.
    PoisonPolicy(message=Progress, delays=[], then=Then.SKIP),
    # Else the failures are counted. The fourth failure ends the dialog with error 500.
    PoisonPolicy.service_broker(),
])  # fmt: skip

accounts_down: Counter[int] = Counter()
"""How often the account of an employee fails from now on. This counter stands for a database."""
attempts: list[tuple[int, int]] = []
"""The employee and the number of each attempt, as TrackMessage would have counted it."""


@payable.on(ExpenseReport)
def add_expense_report(report: ExpenseReport, dialog: Dialog[Ledger]) -> None:
    """Book an expense report. All that it does before it fails is undone, as by the savepoint."""
    attempts.append((report.employee, dialog.message.attempt))
    dialog.group.state.total += report.amount
    dialog.send(Booked(total=dialog.group.state.total))
    if report.employee < 1:
        raise NotAnEmployee(report.employee)
    if accounts_down[report.employee] > 0:
        accounts_down[report.employee] -= 1
        raise ConnectionError(f"the account of employee {report.employee} does not answer")


@payable.on(Progress)
def note_progress(progress: Progress, dialog: Dialog[Ledger]) -> None:
    """Note how far an employee is."""
    dialog.group.state.percent = progress.percent
    if not 0 <= progress.percent <= 100:
        raise ValueError(f"{progress.percent} %")


def totals(dialog: PeerDialog) -> list[int]:
    """Return the totals that an employee was told."""
    return [it.total for it in dialog.received() if isinstance(it, Booked)]


def tour() -> None:
    """Let reports fail in several dialogs, and print what becomes of each."""
    story: dict[str, list[Any]] = {
        "all is well": [ExpenseReport(employee=1, amount=10), ExpenseReport(employee=1, amount=5)],
        "fails three times": [ExpenseReport(employee=2, amount=10), ExpenseReport(employee=2, amount=5)],
        "fails four times": [ExpenseReport(employee=3, amount=10), ExpenseReport(employee=3, amount=5)],
        "no employee": [ExpenseReport(employee=-1, amount=10)],
        "empty progress": [Progress(percent=-1), ExpenseReport(employee=4, amount=10)],
    }
    accounts_down.update({2: 3, 3: 4})
    with Simulation(payable, raise_failures=False) as sim:
        for name, messages in story.items():
            dialog = sim.peer("staff").begin_dialog("payable", EXPENSES)
            for message in messages:
                dialog.send(message)
            sim.run()
            error = f", error {dialog.error.code} {dialog.error.description}" if dialog.error else ""
            print(f"{name:18} totals {totals(dialog)}{error}")
        print("kept with their bytes:", [f"{it.reason} #{it.sequence}" for it in sim.dead_letters("payable")])


if __name__ == "__main__":
    tour()
