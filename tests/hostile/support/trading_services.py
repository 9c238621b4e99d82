"""Two services that trade while an attacker may write to the queue of one of them."""

from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from conversations import Contract, Dialog, PeerError, PoisonPolicy, Service
from tests.bad_input.support.services import BLOB, LEDGER, PING

GHOST = "ghost"
"""A service in the catalog whose queue does not exist."""
OVER: set[str] = set()
"""Ids of the dialogs that ended at ``web``. It is filled in the process that runs ``web``."""


class Order(BaseModel):
    n: int
    size: int = 0
    """Wanted size of the receipt, in bytes."""
    last: bool = False


class Receipt(BaseModel):
    n: int
    pad: str = ""


class Seen(BaseModel):
    orders: list[int] = []
    other: int = 0


TRADE = Contract("Trade", sent_by_initiator=[Order, BLOB, PING, LEDGER], sent_by_target=[Receipt])


def shop() -> Service[Seen]:
    """Return a service that answers each order with a receipt of the wanted size, and ends after the last order. Orders below zero fail."""
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
    """Return a service that begins dialogs by command, and keeps the receipts in the order in which they arrive."""
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
