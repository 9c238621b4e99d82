"""Services for the simulations: a counter with state, an echo, a fan-out, a service that sends no answers, and others."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from conversations import Contract, Dialog, PeerError, PoisonPolicy, RetryLater, Service, Then


class Add(BaseModel):
    amount: int


class Total(BaseModel):
    total: int


class Say(BaseModel):
    text: str


class Heard(BaseModel):
    text: str


class Scatter(BaseModel):
    parts: int


class Part(BaseModel):
    number: int


class PartDone(BaseModel):
    number: int


class Gathered(BaseModel):
    numbers: list[int]


class Remind(BaseModel):
    times: int


class Ring(BaseModel):
    count: int


COUNTING = Contract("Counting", sent_by_initiator=[Add], sent_by_target=[Total])
UNKEPT = Contract("Counting", sent_by_initiator=[Add], sent_by_target=[Total], resend="off")
"""The same for an initiator that keeps nothing."""
ECHO = Contract("Echo", sent_by_any=[Say])
UNKEPT_ECHO = Contract("Echo", sent_by_any=[Say], resend="off")
"""For an initiator that keeps nothing: the target keeps what it does not accept."""
NOTICES = Contract("Notices", sent_by_initiator=[Heard])
SCATTERING = Contract("Scattering", sent_by_initiator=[Scatter], sent_by_target=[Gathered])
WORK = Contract("Work", sent_by_initiator=[Part], sent_by_target=[PartDone])
REMINDERS = Contract("Reminders", sent_by_initiator=[Remind], sent_by_target=[Ring])


class Sum(BaseModel):
    total: int = 0


def counter() -> Service[Sum]:
    """Return a service that adds up the amounts of a group, and sends the total after each message."""
    service = Service("counter", accepts=[COUNTING], state=Sum)

    @service.on(Add)
    def add(body: Add, dialog: Dialog[Sum]) -> None:
        dialog.group.state.total += body.amount
        dialog.send(Total(total=dialog.group.state.total))

    return service


def echo() -> Service[dict[str, Any]]:
    """Return a service that sends each message back, with an ``async def`` handler."""
    service = Service("echo", accepts=[ECHO])

    @service.on(Say)
    async def say(body: Say, dialog: Dialog) -> None:
        dialog.send(body)

    return service


def sink() -> Service[dict[str, Any]]:
    """Return a service that keeps notices in its state, and sends no answers."""
    service = Service("sink", accepts=[NOTICES])

    @service.on(Heard)
    def heard(body: Heard, dialog: Dialog) -> None:
        dialog.group.state.setdefault("heard", []).append(body.text)

    return service


def scatterer() -> Service[dict[str, Any]]:
    """Return a service that sends each part of a job to ``laborer`` in a separate dialog, and gathers the answers."""
    service = Service("scatterer", accepts=[SCATTERING], initiates=[WORK])

    @service.on(Scatter)
    def scatter(body: Scatter, dialog: Dialog) -> None:
        group = dialog.group
        group.state.update(parts=body.parts, done=[])
        for number in range(body.parts):
            group.begin_dialog("laborer", WORK).send(Part(number=number))

    @service.on(PartDone)
    def done(body: PartDone, dialog: Dialog) -> None:
        group = dialog.group
        group.state["done"].append(body.number)
        if len(group.state["done"]) == group.state["parts"]:
            group.opened_by.send(Gathered(numbers=sorted(group.state["done"])))
            group.opened_by.end()

    return service


def laborer() -> Service[dict[str, Any]]:
    """Return a service that does one part of a job, and ends the dialog."""
    service = Service("laborer", accepts=[WORK])

    @service.on(Part)
    def work(body: Part, dialog: Dialog) -> None:
        dialog.send(PartDone(number=body.number))
        dialog.end()

    return service


class Bell(BaseModel):
    left: int = 0
    rung: int = 0


def bell() -> Service[Bell]:
    """Return a service that sends ``Ring`` the wanted number of times, a minute apart, and then ends the dialog."""
    service = Service("bell", accepts=[REMINDERS], state=Bell)

    @service.on(Remind)
    def remind(body: Remind, dialog: Dialog[Bell]) -> None:
        dialog.group.state.left = body.times
        dialog.set_timer(timedelta(minutes=1))

    @service.on_timer()
    def ring(dialog: Dialog[Bell]) -> None:
        state = dialog.group.state
        state.left -= 1
        state.rung += 1
        dialog.send(Ring(count=state.rung))
        if state.left:
            dialog.set_timer(timedelta(minutes=1))
        else:
            dialog.end()

    return service


def alarm() -> Service[dict[str, Any]]:
    """Return a service that sends ``Ring`` with 1, 2, ... at minutes 1, 2, ..., by a timer for each, and then ends the dialog.

    The timer of the first ``Ring`` is set anew by its own handler once. One timer is cancelled before it is due.
    """
    service = Service("alarm", accepts=[REMINDERS])

    @service.on(Remind)
    def remind(body: Remind, dialog: Dialog) -> None:
        for number in range(1, body.times + 1):
            dialog.set_timer(timedelta(minutes=number), name=f"n{number}")
        dialog.set_timer(timedelta(minutes=body.times, seconds=30), name="never")
        dialog.set_timer(timedelta(minutes=body.times + 1), name="last")

    @service.on_timer()
    def rang(dialog: Dialog) -> None:
        if dialog.timer == "last":
            dialog.end()
        elif dialog.timer == "n1" and not dialog.group.state.get("again"):
            dialog.group.state["again"] = True
            dialog.cancel_timer(name="never")
            dialog.send(Ring(count=1))
            dialog.set_timer(timedelta(seconds=10), name="n1")
        elif dialog.timer == "never":
            dialog.send(Ring(count=-1))
        else:
            dialog.send(Ring(count=int(dialog.timer[1:])))

    return service


class Grumble(Exception):
    """The exception that handlers of the moody service raise."""


def moody() -> Service[dict[str, Any]]:
    """Return a service that sends texts back. It ends the dialog with an error for "error", and fails at each attempt for "poison"."""
    service = Service("moody", accepts=[ECHO], poison=[PoisonPolicy.service_broker()])

    @service.on(Say)
    def say(body: Say, dialog: Dialog) -> None:
        if body.text == "error":
            dialog.end_with_error(7, "offended")
        elif body.text == "poison":
            raise Grumble(body.text)
        else:
            dialog.send(body)

    @service.on_error()
    def broken(error: PeerError, dialog: Dialog) -> None:
        dialog.group.state["code"] = error.code

    return service


FICKLE = (
    PoisonPolicy(exception=KeyError, delays=[timedelta(0), timedelta(seconds=5)], then=Then.SKIP),
    PoisonPolicy(
        exception=ValueError,
        delays=[timedelta(seconds=5), timedelta(minutes=1)],
        then=Then.END_DIALOG,
        code=7,
        description="No.",
    ),
    PoisonPolicy(exception=OSError, delays=[timedelta(seconds=3)] * 3, jitter=timedelta(seconds=9), then=Then.HOLD),
)
"""The policies of the fickle service."""
FAILURES = {"skip": KeyError, "end": ValueError, "hold": OSError}


def fickle(now: Callable[[], int]) -> Service[dict[str, Any]]:
    """Return a service whose messages tell how their handler fails.

    With the text "3 skip 2", message 3 fails twice, with the exception whose policy skips. With "3 later 40", it raises ``RetryLater``
    while ``now()`` is less than 40 microseconds.
    """
    service = Service("fickle", accepts=[ECHO], poison=FICKLE)

    @service.on(Say)
    def say(body: Say, dialog: Dialog) -> None:
        number, how, amount = body.text.split()
        dialog.send(Say(text=number))
        if how == "later" and now() < int(amount):
            raise RetryLater(timedelta(seconds=7))
        if how in FAILURES and dialog.message.attempt <= int(amount):
            raise FAILURES[how](body.text)

    return service


def hub() -> Service[dict[str, Any]]:
    """Return a service that sends every number on, each in a new dialog, which may belong to another partition."""
    service = Service("hub", accepts=[COUNTING], initiates=[NOTICES])

    @service.on(Add)
    def add(body: Add, dialog: Dialog) -> None:
        other = dialog.group.begin_dialog("sink", NOTICES, related=False)
        other.send(Heard(text=f"{body.amount}"))
        other.send(Heard(text="and more"))
        other.end()

    return service
