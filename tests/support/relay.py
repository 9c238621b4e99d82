"""Two services for tests of traces: the desk asks the store on a new dialog for each order, and answers when the store has answered."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from conversations import Contract, Dialog, Service


class Order(BaseModel):
    item: str


class Ordered(BaseModel):
    item: str


class Take(BaseModel):
    item: str


class Taken(BaseModel):
    item: str


ORDERS = Contract("Orders", sent_by_initiator=[Order], sent_by_target=[Ordered])
TAKING = Contract("Taking", sent_by_initiator=[Take], sent_by_target=[Taken])


def relay() -> tuple[Service[dict[str, Any]], Service[dict[str, Any]]]:
    """Make both services."""
    desk = Service("desk", accepts=[ORDERS], initiates=[TAKING])
    store = Service("store", accepts=[TAKING])

    @desk.on(Order)
    def ordered(order: Order, dialog: Dialog) -> None:
        dialog.group.begin_dialog("store", TAKING).send(Take(item=order.item))

    @store.on(Take)
    async def take(message: Take, dialog: Dialog) -> None:
        dialog.send(Taken(item=message.item))

    @desk.on(Taken)
    def taken(message: Taken, dialog: Dialog) -> None:
        (first,) = dialog.group.dialogs(ORDERS)
        first.send(Ordered(item=message.item))

    return desk, store
