"""Two services that trade: the one bad input is thrown at, and the one it claims to come from."""

from datetime import UTC
from typing import Any

from pydantic import BaseModel, field_validator

from conversations import Contract, Dialog, MessageType, PeerError, PoisonPolicy, Service

PARTITIONS = 2
"""Everything is thrown at partition 0; the other one only exists, so that a record can be in the wrong one."""


class Order(BaseModel):
    n: int
    note: str = ""

    @field_validator("note")
    @classmethod
    def _readable(cls, note: str) -> str:
        if note == "a bug":
            raise KeyError(note)  # not what Pydantic expects of a validator
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
"""Nobody here accepts it."""


class Seen(BaseModel):
    orders: list[int] = []
    other: int = 0


def shop() -> Service[Seen]:
    """Answers each order with a receipt of its number, remembers which it saw, and ends with its peer."""
    service = Service("shop", accepts=[TRADE], state=Seen, poison=[PoisonPolicy.service_broker()])

    @service.on(Order)
    def order(body: Order, dialog: Dialog[Seen]) -> None:
        assert dialog.message.sent_at <= dialog.message.sent_at.max.replace(tzinfo=UTC)  # whatever the envelope says
        dialog.group.state.orders.append(body.n)
        dialog.send(Receipt(n=body.n))

    @service.on(BLOB)
    @service.on(PING)
    @service.on(LEDGER)
    def other(body: object, dialog: Dialog[Seen]) -> None:
        dialog.group.state.other += 1

    return service


def web() -> Service[dict[str, Any]]:
    """Begins dialogs by command, and remembers receipts and errors."""
    service = Service("web", initiates=[TRADE, GOSSIP], ignores=["Order"])

    @service.on(Receipt)
    def receipt(body: Receipt, dialog: Dialog) -> None:
        dialog.group.state.setdefault("receipts", []).append(body.n)

    @service.on_error()
    def broken(error: PeerError, dialog: Dialog) -> None:
        dialog.group.state["error"] = error.code

    return service
