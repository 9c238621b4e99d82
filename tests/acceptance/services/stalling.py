"""Stalls in ways that pass by themselves, until there is a file "go"."""

import os
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any

from pydantic import BaseModel

from conversations import Contract, Dialog, PeerError, PoisonPolicy, Pool, Service

OUT = Path(os.environ.get("OUT", "."))


class Word(BaseModel):
    text: str


WORDS = Contract("Words", sent_by_initiator=[Word], sent_by_target=[])
DEVICES = Pool("devices", to="sleepy", contract=WORDS, max_age=timedelta(hours=1), max_messages=1)
caller = Service("caller", initiates=[WORDS])
sleepy = Service("sleepy", accepts=[WORDS], poison=[PoisonPolicy(delays=[timedelta(hours=1)])])


def await_go() -> None:
    while not (OUT / "go").exists():
        Event().wait(0.05)


@sleepy.on(Word)
def hear(body: Word, dialog: Dialog[dict[str, Any]]) -> None:
    if body.text == "slow":
        await_go()
    if body.text == "odd" and not (OUT / "go").exists():
        raise KeyError(body.text)
    if body.text == "no":
        dialog.end_with_error(7, "no words")


@caller.on_error(WORDS)
def refused(_error: PeerError, _dialog: Dialog[dict[str, Any]]) -> None:
    await_go()
