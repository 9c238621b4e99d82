"""python examples/poison_messages.py: what may become of a message that fails, one service for each strategy.

The situations are those of "Poison Message Handling" and "Handling Poison Messages", Service Broker's own texts: a purchase order that
came before its customer's profile, a card that does not match, a slide nobody can show, an expense report that never works.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from conversations import Contract, Dialog, PeerError, PoisonPolicy, QueueDisabled, RetryLater, Service, Then
from conversations.testing import Simulation

SECOND = timedelta(seconds=1)


class Order(BaseModel):
    customer: str
    card_holder: str = ""


class Slide(BaseModel):
    number: int
    media: str = "image/png"


class Report(BaseModel):
    employee: str


class Done(BaseModel):
    what: str


ORDERS = Contract("Orders", sent_by_initiator=[Order], sent_by_target=[Done])
SLIDES = Contract("Slides", sent_by_initiator=[Slide], sent_by_target=[Done])
REPORTS = Contract("Reports", sent_by_initiator=[Report], sent_by_target=[Done])


class UnknownCustomer(Exception):
    """There is no profile of the customer, or not yet."""


class CardMismatch(Exception):
    """The bank knows another holder of the card."""


profiles: set[str] = set()
"""Stands in for a database that others write to."""


def place(order: Order, dialog: Dialog[Any]) -> None:
    """Place a purchase order: for a customer who has a profile, and whose card it is."""
    if order.customer not in profiles:
        raise UnknownCustomer(order.customer)
    if order.card_holder not in ("", order.customer):
        raise CardMismatch(f"the card is {order.card_holder}'s")
    dialog.send(Done(what=order.customer))


# A. Try again: the cause passes by itself, as a profile that is just being made. The dialog waits, in order; no other does.
patient = Service(
    "patient", accepts=[ORDERS], poison=[PoisonPolicy(exception=UnknownCustomer, delays=[3 * SECOND] * 5)]
)
patient.on(Order)(place)

# B. Keep the message and go on: it will never work as it is, and the next ones do not need it.
tolerant = Service(
    "tolerant", accepts=[ORDERS], poison=[PoisonPolicy(exception=CardMismatch, delays=[], then=Then.SKIP)]
)
tolerant.on(Order)(place)

# C. End the dialog with an error: without slide 3 the rest makes no sense, and the presenter should know.
meeting = Service("meeting", accepts=[SLIDES], poison=[
    PoisonPolicy(delays=[], then=Then.END_DIALOG, code=415, description="Invalid media format."),
])  # fmt: skip


@meeting.on(Slide)
def show(slide: Slide, dialog: Dialog) -> None:
    """Show a slide."""
    if not slide.media.startswith("image/"):
        raise ValueError(f"slide {slide.number} is {slide.media}")
    dialog.send(Done(what=f"slide {slide.number}"))


# D. Stop the queue and call somebody: Service Broker's BROKER_QUEUE_DISABLED. Nothing is lost, nothing is skipped.
careful = Service(
    "careful", accepts=[ORDERS], poison=[PoisonPolicy(delays=[timedelta(0)] * 4, then=Then.DISABLE_QUEUE)]
)
careful.on(Order)(place)
mail: list[str] = []


@careful.on_queue_disabled
def alert(queue: QueueDisabled) -> None:
    """Write to the administrator."""
    mail.append(f"Queue of {queue.service}, partition {queue.partition}, is off: {queue.reason}")


# A and B together: once more three seconds later, and then without it.
combined = Service("combined", accepts=[ORDERS], poison=[PoisonPolicy(delays=[3 * SECOND], then=Then.SKIP)])
combined.on(Order)(place)

# The policy of Service Broker's sample, its table of failures and TrackMessage included: the fourth failure ends the dialog with 500.
expenses = Service("expenses", accepts=[REPORTS], poison=[PoisonPolicy.service_broker()])
attempts: list[int] = []


@expenses.on(Report)
def add_expense_report(report: Report, dialog: Dialog) -> None:
    """Add an expense report, of somebody."""
    attempts.append(dialog.message.attempt)
    if not report.employee:
        raise ValueError("an expense report needs an employee")
    dialog.send(Done(what=report.employee))


# By hand, as a comment on the text does it: keep the message in the state, and let the dialog's timer try it. The dialog goes on
# meanwhile, out of order on purpose, so this is for messages that do not depend on one another.
class Pending(BaseModel):
    orders: list[Order] = []
    """Kept until they work."""
    tries: int = 0


by_timer = Service("by-timer", accepts=[ORDERS], state=Pending)


@by_timer.on(Order)
def keep_or_place(order: Order, dialog: Dialog[Pending]) -> None:
    """Place an order, or keep it for later."""
    if order.customer in profiles:
        place(order, dialog)
    else:
        dialog.group.state.orders.append(order)
        dialog.set_timer(3 * SECOND)


@by_timer.on_timer()
def try_kept(dialog: Dialog[Pending]) -> None:
    """Try what was kept; what still does not work is tried again, each time a little later."""
    state = dialog.group.state
    left = [order for order in state.orders if order.customer not in profiles]
    for order in state.orders:
        if order not in left:
            place(order, dialog)
    state.orders, state.tries = left, state.tries + 1
    if left:
        dialog.set_timer(3 * SECOND * state.tries)


# A handler may also say itself when it wants to be called again; that is no failed attempt.
polite = Service("polite", accepts=[ORDERS])


@polite.on(Order)
def ask_later(order: Order, dialog: Dialog) -> None:
    """Place an order, or ask to be called in three seconds."""
    if order.customer not in profiles:
        raise RetryLater(3 * SECOND, f"no profile of {order.customer} yet")
    place(order, dialog)


SERVICES = (patient, tolerant, meeting, careful, combined, expenses, by_timer, polite)


def tour() -> None:
    """Let one dialog of each fail, and say what became of it."""
    profiles.update(["ada", "grace"])
    story: dict[str, tuple[Contract, list[BaseModel]]] = {
        "patient": (ORDERS, [Order(customer="ada"), Order(customer="late"), Order(customer="grace")]),
        "tolerant": (
            ORDERS,
            [Order(customer="ada"), Order(customer="ada", card_holder="bob"), Order(customer="grace")],
        ),
        "meeting": (SLIDES, [Slide(number=2), Slide(number=3, media="text/html"), Slide(number=4)]),
        "careful": (ORDERS, [Order(customer="ada"), Order(customer="late"), Order(customer="grace")]),
        "combined": (ORDERS, [Order(customer="ada"), Order(customer="nobody"), Order(customer="grace")]),
        "expenses": (REPORTS, [Report(employee="ada"), Report(employee=""), Report(employee="grace")]),
        "by-timer": (ORDERS, [Order(customer="ada"), Order(customer="late"), Order(customer="grace")]),
        "polite": (ORDERS, [Order(customer="ada"), Order(customer="late"), Order(customer="grace")]),
    }
    with Simulation(*SERVICES, raise_failures=False) as sim:
        for name, (contract, messages) in story.items():
            dialog = sim.peer("web").begin_dialog(name, contract)
            for message in messages:
                dialog.send(message)
            sim.run()
            first = [done.what for done in dialog.received() if isinstance(done, Done)]
            profiles.add("late")
            sim.advance(10 * SECOND)
            error: PeerError | None = dialog.error
            then = [done.what for done in dialog.received() if isinstance(done, Done)][len(first) :]
            letters = [letter.reason for letter in sim.dead_letters(name)]
            print(
                f"{name:9} at once {first}, then {then}{f', error {error.code}' if error else ''}, dead letters {letters}"
            )
            profiles.discard("late")
    print(*mail, sep="\n")


if __name__ == "__main__":
    tour()
