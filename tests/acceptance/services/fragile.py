"""Gives up on what is not a number, and waits for somebody to decide."""

import os
from datetime import timedelta
from pathlib import Path

from pydantic import BaseModel

from conversations import Contract, Dialog, PoisonPolicy, Service, Then

OUT = Path(os.environ.get("OUT", "."))
WORDS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5}
"""What it understands once there is a file "mended"."""


class Entry(BaseModel):
    text: str


class Sum(BaseModel):
    total: int


SUMS = Contract("Sums", sent_by_initiator=[Entry], sent_by_target=[Sum])


class Total(BaseModel):
    total: int = 0


asker = Service("asker", initiates=[SUMS], ignores=[Sum])
fragile = Service(
    "fragile",
    accepts=[SUMS],
    state=Total,
    poison=[
        PoisonPolicy(exception=OverflowError, delays=[timedelta(hours=1)]),
        PoisonPolicy(delays=[], then=Then.HOLD),
    ],
)


@fragile.on(Entry)
def add(body: Entry, dialog: Dialog[Total]) -> None:
    if body.text == "later":
        raise OverflowError("\x1b[31mtoo much today")
    mended = (OUT / "mended").exists() and WORDS.get(body.text)
    dialog.group.state.total += mended or int(body.text)
    dialog.send(Sum(total=dialog.group.state.total))
    if body.text == "0":
        dialog.end()
