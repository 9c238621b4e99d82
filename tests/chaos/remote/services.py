"""The two services of a chaos run of two clusters, one on each, and the plain topic in which each of them notes what it does.

Both services begin dialogs and accept those of the other one. The initiator says its items in bursts with a timer, and the target replies to
each item. Every note is published in the transaction of the handler, on the cluster of the service. So the notes are true
whatever is killed, and a checker that knows nothing of dialogs can compare them.
"""

from __future__ import annotations

import json
import os
from datetime import timedelta
from hashlib import sha256

from pydantic import BaseModel

from conversations import Contract, Dialog, MessageType, PeerError, Service

LEFT, RIGHT = "remote-left", "remote-right"
"""The service of the cluster ``home``, and the one of the cluster ``emea``."""
HERE = "tests.chaos.remote.services"
TARGETS = {LEFT: f"{HERE}:left_{{}}", RIGHT: f"{HERE}:right_{{}}"}
LENGTH, TOPIC, LARGE, PACE = "REMOTE_LENGTH", "REMOTE_TOPIC", "REMOTE_LARGE", "REMOTE_PACE"
"""Environment variables: items of each dialog, name of the plain topic, share of large items, and seconds between two bursts."""
BURST = 5
"""Items that the initiator says at once."""
AHEAD = 10
"""The initiator says nothing while so many items have no reply."""
LARGE_TIMES = 80_000
"""A large body has 5 MB."""


class Item(BaseModel):
    n: int
    pad: str


class Reply(BaseModel):
    n: int
    pad: str


class Said(BaseModel):
    told: int = 0
    replied: int = 0


ITEMS = Contract(
    "remote.items",
    sent_by_initiator=[MessageType("remote.Item", Item)],
    sent_by_target=[MessageType("remote.Reply", Reply)],
    lifetime=timedelta(hours=1),
)


def pad(dialog: str, kind: str, n: int) -> str:
    """Return the text of an item or reply. Whoever knows its dialog and number knows the text, so that damage is noticed."""
    unit = sha256(f"{dialog} {kind} {n}".encode()).hexdigest()
    large = int(unit[:8], 16) < float(os.environ[LARGE]) * (1 << 32)
    return unit * (LARGE_TIMES if large else 1 + n % 4)


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]


def _note(dialog: Dialog[Said], **facts: object) -> None:
    dialog.publish(os.environ[TOPIC], dialog.id, json.dumps({"dialog": dialog.id, **facts}))


def _service(name: str, peer: str) -> Service[Said]:
    length, pace = int(os.environ[LENGTH]), timedelta(seconds=float(os.environ[PACE]))
    service = Service(name, initiates=[ITEMS], accepts=[ITEMS], state=Said, publishes=[os.environ[TOPIC]])

    @service.on_timer(ITEMS)
    def say(dialog: Dialog[Said]) -> None:
        state = dialog.group.state
        if state.told - state.replied < AHEAD:
            last = min(state.told + BURST, length)
            for n in range(state.told, last):
                dialog.send(Item(n=n, pad=pad(dialog.id, "item", n)))
            _note(dialog, told=[state.told, last])
            state.told = last
        if state.told < length:
            dialog.set_timer(pace)

    @service.on("remote.Item")
    async def item(item: Item, dialog: Dialog[Said]) -> None:
        _note(dialog, item=item.n, digest=_digest(item.pad))
        dialog.send(Reply(n=item.n, pad=pad(dialog.id, "reply", item.n)))
        if item.n == length - 1:
            dialog.end()

    @service.on("remote.Reply")
    async def reply(reply: Reply, dialog: Dialog[Said]) -> None:
        _note(dialog, reply=reply.n, digest=_digest(reply.pad))
        dialog.group.state.replied += 1

    @service.on_end(ITEMS)
    def over(dialog: Dialog[Said]) -> None:
        _note(dialog, over=True)

    @service.on_error(ITEMS)
    def broken(error: PeerError, dialog: Dialog[Said]) -> None:
        _note(dialog, error=error.code)

    return service


def left_1() -> Service[Said]:
    """The service of the cluster ``home``."""
    return _service(LEFT, RIGHT)


def right_1() -> Service[Said]:
    """The service of the cluster ``emea``."""
    return _service(RIGHT, LEFT)
