"""Two services that trade. Bad input is written for ``shop``, and claims to come from ``web``."""

from datetime import UTC, timedelta
from typing import Any

from pydantic import BaseModel, field_validator

from conversations import Contract, Dialog, MessageType, PeerError, PoisonPolicy, Service

PARTITIONS = 2
"""Number of partitions. Tests write to partition 0. The other partition exists so that a record can be in the wrong partition."""


class Order(BaseModel):
    n: int
    note: str = ""

    @field_validator("note")
    @classmethod
    def _readable(cls, note: str) -> str:
        if note == "a bug":
            raise KeyError(note)  # Pydantic expects a ValueError or an AssertionError of a validator
        return note


class Receipt(BaseModel):
    n: int


BLOB = MessageType("Blob", "bytes")
PING = MessageType("Ping", None)
LEDGER = MessageType(
    "Ledger",
    {
        "type": "record",
        "name": "Ledger",
        "fields": [
            {"name": "title", "type": "string"},
            {"name": "blanks", "type": {"type": "array", "items": "null"}},
            {"name": "next", "type": ["null", "Ledger"]},
        ],
    },
)
TRADE = Contract("Trade", sent_by_initiator=[Order, BLOB, PING, LEDGER], sent_by_target=[Receipt])
GOSSIP = Contract("Gossip", sent_by_any=[Order])
BRIEF = Contract("Brief", sent_by_any=[Order], lifetime=timedelta(hours=1))
"""A contract that neither service accepts."""


class Seen(BaseModel):
    orders: list[int] = []
    other: int = 0


def shop() -> Service[Seen]:
    """Return a service that answers each order with a receipt of its number, and keeps the numbers. When the peer ends, it ends too."""
    service = Service("shop", accepts=[TRADE], state=Seen, poison=[PoisonPolicy.service_broker()])

    @service.on(Order)
    def order(body: Order, dialog: Dialog[Seen]) -> None:
        # ``sent_at`` is a valid time even if the envelope has an impossible time.
        assert dialog.message.sent_at <= dialog.message.sent_at.max.replace(tzinfo=UTC)
        dialog.group.state.orders.append(body.n)
        dialog.send(Receipt(n=body.n))

    @service.on(BLOB)
    @service.on(PING)
    @service.on(LEDGER)
    def other(body: object, dialog: Dialog[Seen]) -> None:
        dialog.group.state.other += 1

    return service


def web() -> Service[dict[str, Any]]:
    """Return a service that begins dialogs by command, and keeps the receipts and errors that it gets."""
    service = Service("web", initiates=[TRADE, GOSSIP, BRIEF], ignores=["Order"])

    @service.on(Receipt)
    def receipt(body: Receipt, dialog: Dialog) -> None:
        dialog.group.state.setdefault("receipts", []).append(body.n)

    @service.on_error()
    def broken(error: PeerError, dialog: Dialog) -> None:
        dialog.group.state["error"] = error.code

    return service
