"""The check of JSON against the schemas of the catalog agrees with Pydantic, and names the field."""

from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from conversations.bodies import schema_of
from conversations.errors import DeclarationError, InvalidBody, UnknownContract
from conversations.kafka.catalog import Catalog
from conversations.protocol.command import Failed
from conversations.protocol.parked import Parked
from conversations_ops.operate.catalogued import misfit, received_type, service_in
from conversations_ops.operate.json_shapes import DEEPEST, MOST, faults
from conversations_ops.operate.messages import body_of, noted


class Colour(StrEnum):
    RED = "red"


class Line(BaseModel):
    model_config = ConfigDict(extra="forbid")
    sku: str = Field(min_length=2, max_length=4)
    count: Annotated[int, Field(gt=0, le=9)] = 1


class Order(BaseModel):
    lines: list[Line] = Field(min_length=1)
    colour: Colour = Colour.RED
    kind: Literal["a", "b"] | None = None
    pair: tuple[int, str] | None = None
    prices: dict[str, float] = {}
    parent: "Order | None" = None


ORDER: Any = schema_of(TypeAdapter(Order))
LINE = {"sku": "abc"}


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"lines": [LINE]}, ""),
        ({"lines": [LINE], "colour": "red", "kind": "b", "pair": [1, "x"], "prices": {"x": 1}, "extra": 5}, ""),
        ({}, "lines is missing"),
        ([], "the body must be object, not array"),
        ({"lines": []}, "lines must have at least 1 elements"),
        ({"lines": [LINE, {}]}, "lines.1.sku is missing"),
        ({"lines": [{"sku": "a"}]}, "lines.0.sku must have at least 2 characters"),
        ({"lines": [{"sku": "abcde"}]}, "lines.0.sku must have at most 4 characters"),
        ({"lines": [{**LINE, "count": 0}]}, "lines.0.count must be > 0"),
        ({"lines": [{**LINE, "count": 10}]}, "lines.0.count must be <= 9"),
        ({"lines": [{**LINE, "count": True}]}, "lines.0.count must be integer, not boolean"),
        ({"lines": [{**LINE, "more": 1}]}, "lines.0.more is no field of this body; its fields are sku, count"),
        ({"lines": [LINE], "colour": "blue"}, "colour must be one of 'red'"),
        ({"lines": [LINE], "kind": "c"}, "kind must be one of 'a', 'b'"),
        ({"lines": [LINE], "pair": [1, 2]}, "pair.1 must be string, not number"),
        ({"lines": [LINE], "prices": {"x": "y"}}, "prices.x must be number, not string"),
        ({"lines": [LINE], "parent": {"lines": [5]}}, "parent.lines.0 must be object, not number"),
    ],
)
def test_a_fault_is_named_with_its_field(body: Any, fault: str) -> None:
    found = faults(ORDER, body)
    assert found[:1] == ([fault] if fault else [])
    try:
        Order.model_validate(body, strict=False)
    except ValidationError:
        assert fault
    else:
        assert not fault or "boolean" in fault  # Pydantic takes True for 1, if it is not strict


def test_the_check_has_limits() -> None:
    assert len(faults(ORDER, {"lines": [{}] * 100})) == MOST
    endless: dict[str, Any] = {"$ref": "#/$defs/it", "$defs": {"it": {"$ref": "#/$defs/it"}}}
    assert faults(endless, 5) == [f"the body is nested more than {DEEPEST} times"]
    assert faults({"$ref": "#/$defs/none", "type": "nonsense", "anyOf": 5, "minimum": "x"}, 5) == []
    assert faults({"type": "number"}, float("nan")) == ["the body must be a finite number"]


def catalog(**bodies: Any) -> Catalog:
    sides = {"initiator": ["Order", "Blob"], "target": [], "any": []}
    entry = {"partitions": 1, "initiates": {"Orders": sides}, "accepts": {}, "bodies": bodies}
    return Catalog(services={"shop": entry})


def test_a_service_of_the_catalog_checks_bodies() -> None:
    known = catalog(Order={"version": 3, "schema": ORDER}, Blob={"version": 1})
    service = service_in(known, "shop", "Orders", "Order", initiates=True)
    declared = service.initiates["Orders"].by_initiator["Order"]
    sent = noted(declared, b'{"lines": [{"sku": "abc"}]}')
    assert (sent.content_type, sent.body) == ("application/json;version=3", b'{"lines":[{"sku":"abc"}]}')
    with pytest.raises(InvalidBody, match=r"lines\.0\.sku is missing"):
        body_of(declared, b'{"lines": [{}]}')
    with pytest.raises(DeclarationError, match=r"no schema of 'Blob'.*--from MODULE:ATTRIBUTE"):
        service_in(known, "shop", "Orders", "Blob", initiates=True)
    with pytest.raises(UnknownContract, match=r"initiates no contract 'Other'.*it initiates Orders"):
        service_in(known, "shop", "Other", "Order", initiates=True)
    with pytest.raises(DeclarationError, match="no service 'nobody'"):
        service_in(known, "nobody", "Orders", "Order", initiates=True)


def test_the_new_body_of_a_held_message_is_checked_by_the_catalog() -> None:
    known = catalog(Order={"version": 3, "schema": ORDER}, Blob={"version": 1})
    known = Catalog(
        services={"bank": {**known.services["shop"], "initiates": {}, "accepts": known.services["shop"]["initiates"]}}
    )
    held = Parked(
        "bank.queue-0-1", "bank", "d", False, "k", "Orders", "shop", Failed.MESSAGE, 3, "Order", b"{}", 1, 0, None, 0, 10, "KeyError", 1
    )  # fmt: skip
    declared = received_type(known, held)
    assert declared is not None
    assert misfit(declared, b'{"lines": [{"sku": "abc"}]}') == ""
    assert "lines.0.sku is missing" in misfit(declared, b'{"lines": [{}]}')
    assert "Order" in misfit(declared, b"{")
    for other in (held._replace(what="Blob"), held._replace(contract="Other"), held._replace(service="shop")):
        assert received_type(known, other) is None, "only its owner knows"
