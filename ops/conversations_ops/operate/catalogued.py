"""Makes a service of its entry in the catalog, so that a terminal can speak for it without its code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import RootModel, model_validator

from conversations.bodies import codec_of
from conversations.errors import DeclarationError, InvalidBody, LocalError, UnknownContract
from conversations.kafka.catalog import Catalog
from conversations.protocol.codes import UNKNOWN_CONTRACT
from conversations.protocol.contract import Contract, MessageType
from conversations.protocol.parked import Parked
from conversations.service import Service
from conversations_ops.operate.json_shapes import faults


def service_in(catalog: Catalog, name: str, contract: str, message: str, *, initiates: bool) -> Service[Any]:
    """Return the service with one of its contracts. Its message types check bodies against the schemas of the catalog.

    The catalog does not have the lifetimes of contracts: a dialog gets the setting ``periods.lifetime``, or the lifetime that is asked for.

    Args:
        catalog: the catalog.
        name: name of the service.
        contract: name of the contract.
        message: the message type to send. Its schema must be in the catalog.
        initiates: True if the service initiates the contract, False if it accepts it.

    Raises:
        DeclarationError: the catalog has no such service, or no schema of the message type.
        UnknownContract: the service does not declare the contract (8425).
    """
    entry = catalog.services.get(name)
    if entry is None:
        raise DeclarationError(f"there is no service {name!r}; the services are {sorted(catalog.services)}")
    declared = entry.get("initiates" if initiates else "accepts", {})
    sides = declared.get(contract)
    if sides is None:
        verb = "initiates" if initiates else "accepts"
        raise UnknownContract(
            f"service {name!r} {verb} no contract {contract!r} (8425); it {verb} {', '.join(sorted(declared)) or 'none'}",
            code=UNKNOWN_CONTRACT,
        )
    bodies = entry.get("bodies", {})
    by = {side: [_type(it, bodies) for it in sides.get(side, ())] for side in ("initiator", "target", "any")}
    named = {it for types in by.values() for it in types if it.name == message}
    if named and not bodies.get(message, {}).get("schema"):
        raise DeclarationError(
            f"the catalog has no schema of {message!r}: its body is bytes, or none, or a class with a long schema. "
            "Name the service with its code: --from MODULE:ATTRIBUTE"
        )
    made = Contract(
        contract, sent_by_initiator=by["initiator"], sent_by_target=by["target"], sent_by_any=by["any"],
        group_named_by=sides.get("group_named_by", ()),
    )  # fmt: skip
    return Service(name, initiates=[made]) if initiates else Service(name, accepts=[made])


def check_accepts(catalog: Catalog, name: str, contract: str) -> None:
    """Check that a service accepts a contract by the catalog.

    Raises:
        UnknownContract: it does not (8425).
    """
    accepted: Iterable[str] = catalog.services.get(name, {}).get("accepts", {})
    if contract not in accepted:
        raise UnknownContract(
            f"service {name!r} does not accept contract {contract!r} (8425); it accepts {', '.join(sorted(accepted)) or 'none'}",
            code=UNKNOWN_CONTRACT,
        )


def received_type(catalog: Catalog, it: Parked) -> MessageType | None:
    """Return the message type of a parked message by the catalog; None if only its owner has it, for example because its body is bytes."""
    try:
        own = service_in(catalog, it.service, it.contract, it.what, initiates=it.initiator)
        declared = (own.initiates if it.initiator else own.accepts)[it.contract]
        return declared.outgoing(None, it.what, not it.initiator)
    except (DeclarationError, LocalError):
        return None


def misfit(declared: MessageType, body: bytes) -> str:
    """Say why a body does not fit its message type; empty if it does."""
    try:
        codec_of(declared).decode(body)
    except InvalidBody as error:
        return str(error)
    return ""


def _type(name: str, bodies: Mapping[str, Mapping[str, Any]]) -> MessageType:
    shape = bodies.get(name, {})
    schema = shape.get("schema")
    if not isinstance(schema, Mapping):
        return MessageType(name, "bytes")  # only shown as it is; ``service_in`` refuses to send it
    if _is_avro(schema):
        return MessageType(name, schema)
    return MessageType(name, _class_of(schema), version=shape["version"])


_AVRO = {"record", "error", "enum", "fixed", "map", "int", "long", "float", "double", "bytes"}
"""Types that Avro has and JSON schemas do not."""


def _is_avro(schema: Mapping[str, Any]) -> bool:
    """Return True if a schema of the catalog is an Avro schema, False if it is a JSON schema."""
    kind, items = schema.get("type"), schema.get("items")
    if kind == "array":
        return isinstance(items, str | list) or (isinstance(items, Mapping) and _is_avro(items))
    return isinstance(kind, str) and kind in _AVRO


def _class_of(schema: Mapping[str, Any]) -> type:
    """Return a class whose objects are any JSON that fits the schema."""

    class Body(RootModel[Any]):
        @model_validator(mode="after")
        def fits(self) -> Body:
            if found := faults(schema, self.root):
                raise ValueError("; ".join(found))
            return self

    return Body
