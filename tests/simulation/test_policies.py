"""Policies at work: how often a message is tried, what its dialog ends with, and what of it happened."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from conversations import Contract, Dialog, GiveUp, MessageType, PeerError, PoisonPolicy, Service, Then
from conversations.poison import AT_ONCE
from conversations.testing import Simulation
from tests.simulation.support.services import ECHO, Say

ONCE = PoisonPolicy(exception=LookupError, delays=[], then=Then.END_DIALOG, code=1404, description="Unknown.")
TWICE = PoisonPolicy(message=Say, delays=[AT_ONCE], then=Then.END_DIALOG, code=7, description="Tried twice.")


def picky() -> tuple[Service[dict[str, Any]], list[int]]:
    """A service that raises what its messages name, and the attempts it saw."""
    service = Service("picky", accepts=[ECHO], poison=[ONCE, TWICE])
    attempts: list[int] = []

    @service.on(Say)
    async def say(body: Say, dialog: Dialog) -> None:
        attempts.append(dialog.message.attempt)
        dialog.send(Say(text="undone unless the handler returns"))
        await failing(body.text)

    return service, attempts


async def failing(how: str) -> None:
    if how == "lookup":
        raise KeyError(how)
    if how == "give up":
        raise GiveUp("it will never work")
    if how == "in a task":
        async with asyncio.TaskGroup() as group:
            group.create_task(failing("value"))
            group.create_task(failing("give up"))
    if how != "fine":
        raise ValueError(how)


@pytest.mark.parametrize(
    ("text", "tried", "code", "description", "kind"),
    [
        ("value", [1, 2], 7, "Tried twice.", "ValueError"),
        ("lookup", [1], 1404, "Unknown.", "KeyError"),
        ("give up", [1], 7, "Tried twice.", "GiveUp"),
        ("in a task", [1], 7, "Tried twice.", "BaseExceptionGroup"),
    ],
)
def test_each_failure_follows_the_first_policy_that_matches(
    text: str, tried: list[int], code: int, description: str, kind: str
) -> None:
    service, attempts = picky()
    with Simulation(service, raise_failures=False) as sim:
        dialog = sim.peer("web").begin_dialog("picky", ECHO)
        dialog.send(Say(text="fine"))
        dialog.send(Say(text=text))
        sim.run()
        assert attempts == [1, *tried]
        assert len(dialog.received()) == 1, "what a failed run asked for did not happen"
        assert dialog.error
        assert (dialog.error.code, dialog.error.description) == (code, description)
        (letter,) = sim.dead_letters("picky")
        assert (letter.attempts, letter.code) == (len(tried), code)
        assert str(letter.exception).endswith(kind)
        sim.check_invariants()


def test_giving_up_is_no_exception_that_a_handler_swallows_by_accident() -> None:
    """``except Exception`` around the whole handler: its own failures are business, the verdict is not."""
    service = Service("broad", accepts=[ECHO], poison=[TWICE])

    @service.on(Say)
    def say(body: Say, dialog: Dialog) -> None:
        try:
            raise GiveUp(body.text) if body.text == "give up" else ValueError(body.text)
        except Exception as error:  # noqa: BLE001 - what the test is about
            dialog.send(Say(text=str(error)))

    with Simulation(service, raise_failures=False) as sim:
        dialog = sim.peer("web").begin_dialog("broad", ECHO)
        for text in ("caught", "give up"):
            dialog.send(Say(text=text))
        sim.run()
        assert dialog.received() == [Say(text="caught")]
        assert dialog.error
        assert dialog.error.code == 7


class Doubtful(BaseModel):
    text: str

    @field_validator("text")
    @classmethod
    def believable(cls, text: str) -> str:
        if text == "never":
            raise GiveUp("no such text")
        return text


class Text(BaseModel):
    text: str


class Number(BaseModel):
    text: int


DOUBTS = Contract("Doubts", sent_by_any=[Doubtful])


def test_a_verdict_of_a_validator_is_a_body_that_is_not_valid() -> None:
    """It is raised where bodies are decoded, in the worker's own code: nothing else may come of it."""
    service = Service("judge", accepts=[DOUBTS], ignores=["Doubtful"], poison=[PoisonPolicy.service_broker()])
    with Simulation(service) as sim:
        dialog = sim.peer("web").begin_dialog("judge", Contract("Doubts", sent_by_any=[MessageType("Doubtful", Text)]))
        dialog.send(Text(text="never"))
        sim.run()
        assert dialog.error
        assert dialog.error.code == -9615


def timed() -> tuple[Service[dict[str, Any]], list[str]]:
    """A service whose timers and error handlers fail; what each attempt was."""
    service = Service(
        "timed", accepts=[ECHO], poison=[TWICE, PoisonPolicy(delays=[AT_ONCE] * 2, then=Then.END_DIALOG, code=9)]
    )
    attempts: list[str] = []

    @service.on(Say)
    def say(body: Say, dialog: Dialog) -> None:
        if body.text == "poison":
            raise ValueError(body.text)
        dialog.set_timer(timedelta(seconds=1))

    @service.on_timer()
    def ring(dialog: Dialog) -> None:
        attempts.append("timer")
        raise ValueError("timer")

    @service.on_error()
    def broken(error: PeerError, dialog: Dialog) -> None:
        attempts.append("error")
        raise ValueError("error")

    return service, attempts


def test_a_timer_follows_the_policies_that_name_no_message() -> None:
    service, attempts = timed()
    with Simulation(service, raise_failures=False) as sim:
        dialog = sim.peer("web").begin_dialog("timed", ECHO)
        dialog.send(Say(text="go"))
        sim.advance(timedelta(seconds=2))
        assert attempts == ["timer"] * 3
        assert dialog.error
        assert dialog.error.code == 9


def test_an_error_handler_follows_the_policies_that_name_no_message_even_if_a_message_broke_the_dialog() -> None:
    service, attempts = timed()
    with Simulation(service, raise_failures=False) as sim:
        dialog = sim.peer("web").begin_dialog("timed", Contract("Echo", sent_by_any=[MessageType("Say", Number)]))
        dialog.send(Number(text=1))
        sim.run()
        assert attempts == ["error"] * 3
        assert sim.open_dialogs() == []


def test_giving_up_on_a_timer_ends_a_dialog_that_nothing_was_sent_on() -> None:
    """Its peer has never heard of it, and is told nothing."""
    service = Service("early", accepts=[ECHO], initiates=[ECHO], poison=[PoisonPolicy.service_broker()])
    begun: list[str] = []

    @service.on(Say)
    def say(body: Say, dialog: Dialog) -> None:
        silent = dialog.group.begin_dialog("web", ECHO)
        silent.set_timer(timedelta(seconds=1))
        begun.append(silent.id)

    @service.on_timer()
    def ring(dialog: Dialog) -> None:
        raise ValueError(dialog.id)

    with Simulation(service, raise_failures=False) as sim:
        dialog = sim.peer("web", accepts=[ECHO]).begin_dialog("early", ECHO)
        dialog.send(Say(text="go"))
        sim.advance(timedelta(seconds=2))
        assert begun[0] not in sim.open_dialogs()
        assert dialog.id in sim.open_dialogs()
        assert sim.worker("early").counts.failures == 4
