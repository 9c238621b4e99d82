"""Strategies for messages that fail, with one service for each: ``python examples/service_broker/poison_messages.py``.

The situations are from the text of Service Broker "Poison Message Handling": a purchase order that came before the profile of its
customer, a card that does not match, a slide that cannot be shown. A to D are the strategies of the text, the others are combinations.
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


class Done(BaseModel):
    what: str


ORDERS = Contract("Orders", sent_by_initiator=[Order], sent_by_target=[Done])
SLIDES = Contract("Slides", sent_by_initiator=[Slide], sent_by_target=[Done])


class UnknownCustomer(Exception):
    """The customer has no profile, or no profile yet."""


class CardMismatch(Exception):
    """The card belongs to another person than the customer."""


profiles: set[str] = set()
"""Customers with a profile. This set stands for a database that other programs write to."""


def place(order: Order, dialog: Dialog[Any]) -> None:
    """Place a purchase order. The customer must have a profile, and must be the holder of the card."""
    if order.customer not in profiles:
        raise UnknownCustomer(order.customer)
    if order.card_holder not in ("", order.customer):
        raise CardMismatch(f"the card is {order.card_holder}'s")
    dialog.send(Done(what=order.customer))


# A. Try again, because the cause ends by itself, for example when the profile is made. The dialog waits, other dialogs do not wait.
patient = Service(
    "patient", accepts=[ORDERS], poison=[PoisonPolicy(exception=UnknownCustomer, delays=[3 * SECOND] * 5)]
)
patient.on(Order)(place)

# B. Keep the message as a dead letter, and continue. The message will never work as it is, and the next messages do not need it.
tolerant = Service(
    "tolerant", accepts=[ORDERS], poison=[PoisonPolicy(exception=CardMismatch, delays=[], then=Then.SKIP)]
)
tolerant.on(Order)(place)

# C. End the dialog with an error. Without slide 3 the rest of the meeting makes no sense, and the presenter should learn of it.
meeting = Service("meeting", accepts=[SLIDES], poison=[
    PoisonPolicy(delays=[], then=Then.END_DIALOG, code=415, description="Invalid media format."),
])  # fmt: skip


@meeting.on(Slide)
def show(slide: Slide, dialog: Dialog) -> None:
    """Show a slide."""
    if not slide.media.startswith("image/"):
        raise ValueError(f"slide {slide.number} is {slide.media}")
    dialog.send(Done(what=f"slide {slide.number}"))


# D. Turn the queue off and call a person, like Service Broker's BROKER_QUEUE_DISABLED. No message is lost or skipped.
careful = Service(
    "careful", accepts=[ORDERS], poison=[PoisonPolicy(delays=[timedelta(0)] * 4, then=Then.DISABLE_QUEUE)]
)
careful.on(Order)(place)
mail: list[str] = []


@careful.on_queue_disabled
def alert(queue: QueueDisabled) -> None:
    """Write a mail to the administrator."""
    mail.append(f"Queue of {queue.service}, partition {queue.partition}, is off: {queue.reason}")


# A and B together: try again once, three seconds later. Then skip the message.
combined = Service("combined", accepts=[ORDERS], poison=[PoisonPolicy(delays=[3 * SECOND], then=Then.SKIP)])
combined.on(Order)(place)


# A with a timer, as a comment on the text suggests. There is no policy: the handler keeps the message in the state, and the dialog's
# timer tries it again. The dialog continues meanwhile, out of order on purpose. So this strategy is only for messages that do not depend
# on each other.
class Pending(BaseModel):
    orders: list[Order] = []
    """Orders that have failed, until they succeed."""
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
    """Try the kept orders. Keep the orders that fail again. Each wait is longer than the wait before."""
    state = dialog.group.state
    left = [order for order in state.orders if order.customer not in profiles]
    for order in state.orders:
        if order not in left:
            place(order, dialog)
    state.orders, state.tries = left, state.tries + 1
    if left:
        dialog.set_timer(3 * SECOND * state.tries)


# A handler may also raise ``RetryLater`` to be called again later. This does not count as a failed attempt.
polite = Service("polite", accepts=[ORDERS])


@polite.on(Order)
def ask_later(order: Order, dialog: Dialog) -> None:
    """Place an order, or ask to be called in three seconds."""
    if order.customer not in profiles:
        raise RetryLater(3 * SECOND, f"no profile of {order.customer} yet")
    place(order, dialog)


# An operator decides about a held message: ``conversations dead-letters retry``, ``edit``, ``skip`` or ``end``. A test does the same.
def operator(action: str, **more: Any) -> list[str]:
    """Let an order wait for an operator, decide about it, and return whose orders were placed: ``operator("edit", body=Order(...))``."""
    with Simulation(waiting, raise_failures=False) as sim:
        dialog = sim.peer("web").begin_dialog("waiting", ORDERS)
        for customer in ("ada", "late", "grace"):
            dialog.send(Order(customer=customer))
        sim.run()
        (held,) = sim.parked("waiting")
        sim.decide(held, action, **more)
        sim.run()
        return [done.what for done in dialog.received() if isinstance(done, Done)]


# The default policy: after four failures, the dialog waits for an operator.
waiting = Service("waiting", accepts=[ORDERS])
waiting.on(Order)(place)

SERVICES = (patient, tolerant, meeting, careful, combined, by_timer, polite)


def tour() -> None:
    """Let a message fail in a dialog with each service, and print what happens."""
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
    print("operator: edit", operator("edit", body=Order(customer="grace")), "skip", operator("skip"))


if __name__ == "__main__":
    tour()
