"""A service that publishes a receipt for each payment, to a topic that is not ours."""

import os
from pathlib import Path

from pydantic import BaseModel

from conversations import Contract, Dialog, Service

RECEIPTS = os.environ.get("RECEIPTS", "receipts")
OUT = Path(os.environ.get("OUT", "."))


class Payment(BaseModel):
    n: int


class Tally(BaseModel):
    count: int = 0


PAYMENTS = Contract("Payments", sent_by_initiator=[Payment])
payer = Service("payer", initiates=[PAYMENTS])
cashier = Service("cashier", accepts=[PAYMENTS], state=Tally, publishes=[RECEIPTS])


@cashier.on(Payment)
def pay(payment: Payment, dialog: Dialog[Tally]) -> None:
    dialog.group.state.count += 1
    dialog.publish(RECEIPTS, dialog.id, f"{payment.n} {dialog.group.state.count}")
    with (OUT / "handled").open("a") as file:
        file.write(f"{os.getpid()}\n")
