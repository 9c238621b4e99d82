"""Gives up on what is not a number, and waits for somebody to decide."""

from datetime import timedelta

from pydantic import BaseModel

from conversations import Contract, Dialog, PoisonPolicy, Service, Then


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
    dialog.group.state.total += int(body.text)
    dialog.send(Sum(total=dialog.group.state.total))
    if body.text == "0":
        dialog.end()
