"""Stalls in each way in which a service can, until there is a file: "go" for what passes by itself, "mended-KIND" for what a person mends.

The variable RELEASE says which release of the listener a process runs. Release 1 does not know the message type Extra.
"""

import os
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any

from pydantic import BaseModel

from conversations import Contract, Dialog, PeerError, PoisonPolicy, Pool, Service, Then

OUT = Path(os.environ.get("OUT", "."))
RELEASE = int(os.environ.get("RELEASE", "2"))


class Word(BaseModel):
    text: str


class Extra(BaseModel):
    text: str


WORDS = Contract("Words", sent_by_initiator=[Word, Extra] if RELEASE > 1 else [Word], sent_by_target=[])
DEVICES = Pool("devices", to="listener", contract=WORDS, max_age=timedelta(hours=1), max_messages=1)
caller = Service("caller", initiates=[WORDS], poison=[PoisonPolicy(delays=[], then=Then.HOLD)])
POLICIES = [
    PoisonPolicy(exception=ConnectionError, delays=[timedelta(hours=1)]),
    PoisonPolicy(exception=PermissionError, delays=[], then=Then.DISABLE_QUEUE),
    PoisonPolicy(delays=[], then=Then.HOLD),
]
listener = Service("listener", accepts=[WORDS], poison=POLICIES)
sleepy = Service("sleepy", accepts=[WORDS], poison=[PoisonPolicy(delays=[timedelta(hours=1)])])
FAILURES = {
    "later": ConnectionError,
    "off": PermissionError,
    "bad": ValueError,
    "group": LookupError,
    "soon": ValueError,
    "pooled": ValueError,
}
"""With what the handler of a word fails, until the file "mended-WORD" is there."""


def await_go() -> None:
    while not (OUT / "go").exists():
        Event().wait(0.05)


def fails(text: str) -> bool:
    return not (OUT / f"mended-{text}").exists()


def hear(body: Word, dialog: Dialog[dict[str, Any]]) -> None:
    if body.text == "slow":
        await_go()
    if body.text in FAILURES and fails(body.text):
        raise FAILURES[body.text](f"not today: {body.text}")
    if body.text == "odd" and not (OUT / "go").exists():
        raise KeyError(body.text)
    if body.text == "no":
        dialog.end_with_error(7, "no words")
    if body.text == "refuse":
        dialog.end_with_error(8, "refused")
    if body.text == "soon":
        dialog.end()


listener.on(Word)(hear)
sleepy.on(Word)(hear)


def more(_body: Extra, _dialog: Dialog[dict[str, Any]]) -> None:
    """Release 2 hears it."""


if RELEASE > 1:
    listener.on(Extra)(more)
    sleepy.on(Extra)(more)


@caller.on_error(WORDS)
def refused(error: PeerError, _dialog: Dialog[dict[str, Any]]) -> None:
    if error.code == 7:
        await_go()
    if error.code == 8 and fails("error"):
        raise ValueError("the error is not understood")
