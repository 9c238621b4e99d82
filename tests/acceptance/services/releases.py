"""Two services in two releases. The environment variable RELEASE says which release a process runs.

Release 2 of the shop needs one field more in an order, sends one field less in a receipt, and knows one message type more. Release 2 of the
desk writes its envelopes with a later minor version of the schema, which has one field more.
"""

import copy
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from conversations import Contract, Dialog, Kafka, Service, message_type, schemas
from conversations.kafka.appending import append
from conversations.kafka.catalog import schema_record
from conversations.kafka.connection import KafkaConnection
from conversations.ports import Produced, nothing
from conversations.protocol.envelope import decode
from conversations.protocol.envelope_avro import to_fields
from conversations.protocol.registry import Schema
from conversations.protocol.topics import catalog_topic
from tests.acceptance.services.counting import write

RELEASE = int(os.environ.get("RELEASE", "1"))


@message_type("Order")
class FirstOrder(BaseModel):
    n: int


@message_type("Order", version=2)
class SecondOrder(BaseModel):
    n: int
    currency: str


@message_type("Receipt")
class FirstReceipt(BaseModel):
    n: int
    note: str


@message_type("Receipt", version=2)
class SecondReceipt(BaseModel):
    n: int


class Cancel(BaseModel):
    n: int


class Progress(BaseModel):
    next: int = 0


FIRST = Contract("Trade", sent_by_initiator=[FirstOrder], sent_by_target=[FirstReceipt])
SECOND = Contract("Trade", sent_by_initiator=[SecondOrder, Cancel], sent_by_target=[SecondReceipt])


def services(release: int) -> tuple[Service[Any], Service[Any]]:
    """Return the desk and the shop in one release."""
    contract = FIRST if release == 1 else SECOND
    desk: Service[Any] = Service("desk", initiates=[contract], state=Progress)
    shop: Service[Any] = Service("shop", accepts=[contract], state=Progress)

    def receipt(body: Any, dialog: Dialog[Any]) -> None:
        _next("receipts", body.n, dialog)

    def order(body: Any, dialog: Dialog[Any]) -> None:
        _next("orders", body.n, dialog)
        dialog.send(FirstReceipt(n=body.n, note="thanks") if release == 1 else SecondReceipt(n=body.n))

    desk.on(FirstReceipt if release == 1 else SecondReceipt)(receipt)
    shop.on(FirstOrder if release == 1 else SecondOrder)(order)
    if release == 2:
        shop.on(Cancel)(order)
        shop.upgrade(SecondOrder, 1)(lambda old: old | {"currency": "EUR"})
        desk.upgrade(SecondReceipt, 1)(lambda old: {"n": old["n"]})
    return desk, shop


def _next(name: str, n: int, dialog: Dialog[Any]) -> None:
    """Note a number; numbers that are repeated, missing or out of order go to another file."""
    if n != dialog.group.state.next:
        write("disorder", name, dialog.id, n, dialog.group.state.next)
    dialog.group.state.next = n + 1
    write(name, dialog.id, n, RELEASE)


desk, shop = services(RELEASE)


def later_source() -> dict[str, Any]:
    """Return a later minor version of the envelope's schema."""
    source = copy.deepcopy(schemas.load("envelope", schemas.newest("envelope")))
    source["fields"].append({"name": "priority", "type": "int", "default": 5})
    return source


LATER = Schema(later_source())


def publish(kafka: Kafka) -> None:
    """Write the later schema to the catalog, as ``conversations apply`` of that release does."""
    append(kafka, catalog_topic(kafka.namespace), [schema_record(LATER.fingerprint.hex(), json.dumps(later_source()))])


def _in_later_schema(out: Produced) -> Produced:
    topic, partition, key, value, headers = out
    if not topic.endswith(".queue") or value is None:
        return out
    return topic, partition, key, LATER.encode(to_fields(decode(value)) | {"priority": 9}), headers


_commit = KafkaConnection.commit


def _commit_later(
    self: KafkaConnection,
    outs: Sequence[Produced],
    offsets: Mapping[int, int],
    meanwhile: Callable[[], None] = nothing,
) -> Mapping[int, int]:
    return _commit(self, [_in_later_schema(out) for out in outs], offsets, meanwhile)


if RELEASE == 2:
    KafkaConnection.commit = _commit_later  # type: ignore[method-assign]  # a release that does not exist yet writes so
