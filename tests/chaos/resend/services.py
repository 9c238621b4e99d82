"""The two services of a chaos run of resends, and the plain topics in which they publish what they have sent and handled.

The source says one item after the other with a timer, on the dialog that is open at the time. If a dialog broke and nothing of it could be sent again,
it goes on with another dialog. It publishes each item that it sends to the topic
``told``, and the sink publishes each item that it handles to ``handled``, both in the transaction of the handler. So the two topics are true
whatever is killed, and a checker that knows nothing of dialogs can compare them.
"""

from __future__ import annotations

import asyncio
import json
import os
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from conversations import Contract, Dialog, MessageType, PeerError, PoisonPolicy, Service, Then

SOURCE, SINK = "resend-source", "resend-sink"
TARGETS = {SOURCE: "tests.chaos.resend.services:source_{}", SINK: "tests.chaos.resend.services:sink_{}"}
LENGTH, TOPICS = "RESEND_LENGTH", "RESEND_TOPICS"
"""Environment variables: number of items of each dialog, and the first part of the names of the plain topics."""
PACE = timedelta(seconds=1)
SLOW, UNWELL, REPLIED = 7, 11, 3
"""The sink takes its time, fails at first, or replies, for every so many items of a dialog."""
LONG = 0.15


class Item(BaseModel):
    first: str
    """Id of the first dialog."""
    n: int


class Reply(BaseModel):
    n: int


class Said(BaseModel):
    n: int = 0
    """Number of items that the source has sent."""


class Unwell(Exception):
    """A handler failed; a later attempt succeeds."""


PATIENT = PoisonPolicy(
    then=Then.END_DIALOG, exception=Unwell, delays=[timedelta(seconds=wait) for wait in (0.2, 0.5, 1, 2)]
)
ITEMS = Contract(
    "chaos.items",
    sent_by_initiator=[MessageType("chaos.Item", Item)],
    sent_by_target=[MessageType("chaos.Reply", Reply)],
    lifetime=timedelta(hours=1),
    resend="automatic",
)


TOLD, HANDLED = "told", "handled"


def length() -> int:
    """Return the number of items of each dialog."""
    return int(os.environ[LENGTH])


def topic(name: str) -> str:
    """Return the name of a plain topic of this run."""
    return f"{os.environ[TOPICS]}.{name}"


def source_1() -> Service[Said]:
    """The source: it says all its items, and then ends."""
    service = Service(SOURCE, initiates=[ITEMS], state=Said, publishes=[topic(TOLD)])

    @service.on_timer(ITEMS)
    def say(dialog: Dialog[Said]) -> None:
        state, first = dialog.group.state, dialog.group.key
        dialog.send(Item(first=first, n=state.n))
        dialog.publish(topic(TOLD), first, json.dumps({"first": first, "n": state.n, "dialog": dialog.id}))
        state.n += 1
        if state.n == length():
            dialog.end()
        else:
            dialog.set_timer(PACE)

    @service.on("chaos.Reply")
    def replied(reply: Reply, dialog: Dialog[Said]) -> None:
        pass

    @service.on_error(ITEMS)
    def broken(error: PeerError, dialog: Dialog[Said]) -> None:
        if dialog.group.state.n < length():
            dialog.group.begin_dialog(SINK, ITEMS).set_timer(PACE)

    return service


def sink_1() -> Service[dict[str, Any]]:
    """The sink: some items take long, some fail at first, and some get a reply."""
    service: Service[dict[str, Any]] = Service(SINK, accepts=[ITEMS], publishes=[topic(HANDLED)], poison=[PATIENT])

    @service.on("chaos.Item")
    async def handle(item: Item, dialog: Dialog[dict[str, Any]]) -> None:
        draw = int(item.first[-6:], 16) + item.n
        if draw % SLOW == 0:
            await asyncio.sleep(LONG)
        if draw % UNWELL == 0 and dialog.message.attempt <= 1 + draw % 3:
            raise Unwell(f"item {item.n}")
        chain = dialog.message.id.partition(":")[0]  # the dialog on which the item was sent first
        dialog.publish(topic(HANDLED), item.first, json.dumps({"first": item.first, "n": item.n, "chain": chain}))
        if draw % REPLIED == 0:
            dialog.send(Reply(n=item.n))

    return service
