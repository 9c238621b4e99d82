"""The services of the chaos run of speakers: a desk that begins dialogs, and a shop that accepts them and speaks in three ways.

Some handlers are slower than a step. Meanwhile the other speakers speak on the same dialog, and what was accepted is not handled yet.
"""

from __future__ import annotations

import asyncio
import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from conversations import Contract, Dialog, MessageType, Service

DESK, SHOP = "speakers-desk", "speakers-shop"
HERE = "tests.chaos.speakers.services"
TARGETS = {DESK: f"{HERE}:desk_{{}}", SHOP: f"{HERE}:shop_{{}}"}
TOPICS, STOP = "SPEAKERS_TOPICS", "SPEAKERS_STOP"
"""Environment variables: the first part of the names of the plain topics, and a file: while it is missing, handlers go on."""
HANDLER, HOOK, TERMINAL = "handler", "hook", "terminal"
HEARD, TOLD = "heard", "told"
"""Plain topics: what handlers of the desk heard, and what handlers of the shop said."""
SAID = "speakers.Said"
SLOW, LONG = 7, 0.2
"""One of so many handlers takes so many seconds."""


class Ask(BaseModel):
    n: int


class Said(BaseModel):
    speaker: str
    n: int
    """Number of the message among those of its speaker on the dialog, from 0."""


class Count(BaseModel):
    heard: int = 0


TALK = Contract(
    "speakers.talk",
    sent_by_initiator=[MessageType("speakers.Ask", Ask)],
    sent_by_target=[MessageType(SAID, Said)],
    lifetime=timedelta(hours=1),
)


def topic(name: str) -> str:
    """Return the name of a plain topic of this run."""
    return f"{os.environ[TOPICS]}.{name}"


def desk_1() -> Service[Count]:
    """The desk: it notes all that it hears, and asks again after each answer of a handler."""
    service = Service(DESK, initiates=[TALK], state=Count, publishes=[topic(HEARD)])

    @service.on(SAID)
    async def heard(said: Said, dialog: Dialog[Count]) -> None:
        await _take_time(dialog)
        dialog.group.state.heard += 1
        goes_on = said.speaker == HANDLER and not _is_over()
        if goes_on:
            dialog.send(Ask(n=said.n + 1))
        over = said.speaker == HANDLER and not goes_on
        note = {"speaker": said.speaker, "n": said.n, "number": dialog.message.sequence, "over": over}
        dialog.publish(topic(HEARD), dialog.id, json.dumps(note))

    return service


def shop_1() -> Service[dict[str, Any]]:
    """The shop: its handler answers, and tells web hooks and terminals the handle of the dialog."""
    service: Service[dict[str, Any]] = Service(SHOP, accepts=[TALK], publishes=[topic(TOLD)])

    @service.on("speakers.Ask")
    async def asked(ask: Ask, dialog: Dialog[dict[str, Any]]) -> None:
        await _take_time(dialog)
        dialog.send(Said(speaker=HANDLER, n=ask.n))
        dialog.publish(topic(TOLD), dialog.id, json.dumps({"n": ask.n, "handle": dialog.handle}))

    return service


async def _take_time(dialog: Dialog[Any]) -> None:
    if dialog.message.sequence % SLOW == SLOW - 1:
        await asyncio.sleep(LONG)


def _is_over() -> bool:
    return Path(os.environ[STOP]).exists()
