"""A service fed by an existing topic: each record of `shop.orders` begins a dialog with the stock, exactly once.

The topic belongs to the shop, which knows nothing of dialogs: it appends JSON with the order's number as the key. When the stock has answered,
the service publishes to another topic of the shop. So the shop stays with its topics, and what happens in between is a conversation.
"""

import json

from pydantic import BaseModel

from conversations import Contract, Dialog, NewDialog, PlainRecord, Service, local


class Reserve(BaseModel):
    order: int
    item: str


class Reserved(BaseModel):
    order: int


RESERVATIONS = Contract("Reservations", sent_by_initiator=[Reserve], sent_by_target=[Reserved])

web = Service("web", initiates=[RESERVATIONS], publishes=["shop.confirmed"])
stock = Service("stock", accepts=[RESERVATIONS])


@web.from_topic("shop.orders", to="stock", contract=RESERVATIONS, start="earliest")
def order_placed(record: PlainRecord) -> NewDialog | None:
    """Turn a record into the first message of a dialog. All dialogs of one customer are in one group, so they share state and a lane."""
    fields = json.loads(record.value or b"null")
    if fields is None or fields["kind"] != "placed":
        return None  # not for us
    return NewDialog(Reserve(order=fields["order"], item=fields["item"]), group=f"customer-{fields['customer']}")


@web.on(Reserved)
def reserved(answer: Reserved, dialog: Dialog) -> None:
    dialog.publish("shop.confirmed", str(answer.order), json.dumps({"order": answer.order}))
    dialog.end()


@stock.on(Reserve)
def reserve(asked: Reserve, dialog: Dialog) -> None:
    print(f"order {asked.order}: one {asked.item}")
    dialog.send(Reserved(order=asked.order))


if __name__ == "__main__":
    from time import sleep

    with local(web, stock) as client:
        client.feed("shop.orders", "7", json.dumps({"kind": "placed", "order": 7, "customer": 4, "item": "teapot"}))
        sleep(1)
