"""A service that is fed by a topic that is not ours, and the service with which it begins dialogs."""

import os
from pathlib import Path

from pydantic import BaseModel

from conversations import Contract, Dialog, PlainRecord, Service

ORDERED = os.environ.get("ORDERED", "shop.orders")
OUT = Path(os.environ.get("OUT", "."))


class Order(BaseModel):
    n: int


class Tally(BaseModel):
    numbers: list[int] = []


ORDERS = Contract("Orders", sent_by_initiator=[Order])
web = Service("web", initiates=[ORDERS])
stock = Service("stock", accepts=[ORDERS], state=Tally, publishes=[f"{ORDERED}.done"])


@web.from_topic(ORDERED, to="stock", contract=ORDERS, start="earliest")
def order_placed(record: PlainRecord) -> Order:
    """Turn a record into a message, and note which process did it."""
    with (OUT / "turned").open("a") as file:
        file.write(f"{os.getpid()}\n")
    return Order.model_validate_json(record.value or b"")


@stock.on(Order)
def take(order: Order, dialog: Dialog[Tally]) -> None:
    dialog.group.state.numbers.append(order.n)
    dialog.publish(f"{ORDERED}.done", dialog.id, str(order.n))
