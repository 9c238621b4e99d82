"""Policies at work: how often a message is tried, what its dialog ends with, and what of it happened."""

import asyncio
from typing import Any

import pytest

from conversations import Dialog, GiveUp, PoisonPolicy, Service
from conversations.poison import AT_ONCE
from conversations.testing import Simulation
from tests.simulation.services import ECHO, Say

ONCE = PoisonPolicy(exception=LookupError, delays=[], code=1404, description="Unknown.")
TWICE = PoisonPolicy(message=Say, delays=[AT_ONCE], code=7, description="Tried twice.")


def picky() -> tuple[Service[dict[str, Any]], list[int]]:
    """A service that raises what its messages name, and the attempts it saw."""
    service = Service("picky", accepts=[ECHO], poison=[ONCE, TWICE])
    attempts: list[int] = []

    @service.on(Say)
    async def say(body: Say, dialog: Dialog) -> None:
        attempts.append(dialog.message.attempt)
        dialog.send(Say(text="undone unless the handler returns"))
        dialog.group.state["seen"] = body.text
        try:
            await failing(body.text)
        except Exception:
            if body.text != "swallowed":
                raise

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
    ("text", "tried", "code", "kind"),
    [
        ("value", [1, 2], 7, "ValueError"),
        ("lookup", [1], 1404, "KeyError"),
        ("give up", [1], 7, "GiveUp"),
        ("in a task", [1], 7, "BaseExceptionGroup"),
    ],
)
def test_each_failure_follows_the_first_policy_that_matches(text: str, tried: list[int], code: int, kind: str) -> None:
    service, attempts = picky()
    with Simulation(service, raise_failures=False) as sim:
        dialog = sim.peer("web").begin_dialog("picky", ECHO)
        dialog.send(Say(text="fine"))
        dialog.send(Say(text=text))
        sim.run()
        assert attempts == [1, *tried]
        assert len(dialog.received()) == 1, "what a failed run asked for did not happen"
        assert dialog.error
        assert dialog.error.code == code
        (letter,) = sim.dead_letters("picky")
        assert letter.attempts == len(tried)
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
