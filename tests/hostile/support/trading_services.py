"""Two services that trade while a third party, which may write the queue of one of them, does what it can."""

from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from conversations import Contract, Dialog, PeerError, PoisonPolicy, Service
from tests.bad_input.support.services import BLOB, LEDGER, PING

GHOST = "ghost"
"""A service of the catalog whose queue is not there."""
OVER: set[str] = set()
"""Dialogs that ended at ``web``, in the process that runs it."""


class Order(BaseModel):
    n: int
    size: int = 0
    """Of the receipt."""
    last: bool = False


class Receipt(BaseModel):
    n: int
    pad: str = ""


class Seen(BaseModel):
    orders: list[int] = []
    other: int = 0


TRADE = Contract("Trade", sent_by_initiator=[Order, BLOB, PING, LEDGER], sent_by_target=[Receipt])


def shop() -> Service[Seen]:
    """Answers each order, as long as it is asked to, and ends behind the last one; orders below zero fail."""
    service = Service("shop", accepts=[TRADE], state=Seen, poison=[PoisonPolicy(delays=[timedelta(seconds=1)])])

    @service.on(Order)
    def order(body: Order, dialog: Dialog[Seen]) -> None:
        if body.n < 0:
            raise ValueError(body.n)
        dialog.group.state.orders.append(body.n)
        dialog.send(Receipt(n=body.n, pad="." * min(body.size, 800_000)))
        if body.last:
            dialog.end()

    @service.on(BLOB)
    @service.on(PING)
    @service.on(LEDGER)
    def other(body: object, dialog: Dialog[Seen]) -> None:
        dialog.group.state.other += 1

    return service


def web() -> Service[dict[str, Any]]:
    """Begins dialogs by command, and remembers receipts in the order they came."""
    service = Service("web", initiates=[TRADE])

    @service.on(Receipt)
    def receipt(body: Receipt, dialog: Dialog) -> None:
        dialog.group.state.setdefault("receipts", []).append(body.n)

    @service.on_end()
    def over(dialog: Dialog) -> None:
        dialog.end()
        OVER.add(dialog.id)

    @service.on_error()
    def broken(error: PeerError, dialog: Dialog) -> None:
        dialog.group.state["error"] = error.code

    return service
