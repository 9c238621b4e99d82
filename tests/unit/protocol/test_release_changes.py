"""What the next release of a service does to messages in flight, told from two entries of the catalog."""

from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel, Field

from conversations import Contract, Service, message_type
from conversations.errors import DeclarationError
from conversations.protocol.declarations import ServiceDeclaration
from conversations.protocol.release_changes import changes, check_release, is_another_program


@message_type("Order")
class Old(BaseModel):
    n: int
    colour: str


@message_type("Order")
class More(BaseModel):
    """A field more."""

    n: int
    colour: str
    currency: str


@message_type("Order")
class Default(BaseModel):
    n: int
    colour: str
    currency: str = "EUR"


@message_type("Order")
class Other(BaseModel):
    """Only the default differs from that of ``Default``."""

    n: int
    colour: str
    currency: str = "USD"


@message_type("Order")
class Less(BaseModel):
    n: int


@message_type("Order")
class Typed(BaseModel):
    n: str
    colour: str


@message_type("Order", version=2)
class Second(BaseModel):
    n: int
    colour: str
    currency: str


class Item(BaseModel):
    code: int


@message_type("Order")
class Nested(BaseModel):
    items: list[Item]


class Receipt(BaseModel):
    pass


class Reminder(BaseModel):
    pass


def entry(
    *types: type, sent: tuple[type, ...] = (Receipt,), name: str = "Trade", state_version: int = 1
) -> dict[str, object]:
    contract = Contract(name, sent_by_initiator=types, sent_by_target=sent, lifetime=timedelta(hours=1))
    service = Service("shop", accepts=[contract], state=dict, state_version=state_version)
    return service.declaration().entry(4)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (entry(Old), entry(Old), []),
        (entry(Old), entry(Default), []),
        (entry(Old), entry(Second), []),
        (entry(Old), entry(More), ["needs field currency: bodies without it are held"]),
        (entry(Old), entry(Less), ["has no field colour any more: peers whose release needs the field hold"]),
        (entry(Old), entry(Typed), ["field n of message type Order has another type"]),
        (entry(Default), entry(Other), []),
        (entry(Second), entry(Old), ["goes back from version 2 to 1"]),
        (entry(Old, Reminder), entry(Old), ["messages of type Reminder that are in flight"]),
        (entry(Old), entry(Old, sent=(Receipt, Reminder)), ["peers hold messages of the new type Reminder"]),
        (entry(Old), entry(Old, Reminder), []),
        (entry(Old), entry(Old, name="Sale"), ["contract Trade is not accepted any more"]),
        (entry(Old, state_version=3), entry(Old), ["the state goes back from version 3 to 1"]),
        ({"partitions": 4, "accepts": {}}, entry(Old), []),
    ],
)
def test_each_change_that_has_an_effect_is_named(
    before: dict[str, object], after: dict[str, object], told: list[str]
) -> None:
    found = changes(before, after)
    assert len(found) == len(told), found
    assert all(text in line for text, line in zip(told, found, strict=True)), found


class Stock(BaseModel):
    left: int = 0


class Renamed(BaseModel):
    available: int = 0


class Held(BaseModel):
    left: int = 0
    held: dict[str, int] = {}


class Texts(BaseModel):
    left: str = ""


class Full(BaseModel):
    """Only the default differs from that of ``Stock``, and what people read."""

    left: int = Field(9, description="what is left", title="rest")


def stock(state: type[BaseModel] | type[dict[str, object]], version: int = 1) -> ServiceDeclaration:
    contract = Contract("Trade", sent_by_initiator=[Old], sent_by_target=[Receipt])
    return Service[Any]("stock", accepts=[contract], state=state, state_version=version).declaration()


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (stock(Stock), stock(Stock), []),
        (stock(Stock), stock(Held), ["the state has the new field held: stored state gets the default"]),
        (stock(Stock), stock(Texts), ["field left of the state has another type"]),
        (stock(Stock), stock(Full), []),
        (stock(Stock), stock(Renamed, 2), ["goes from version 1 to 2: at workers of the older release"]),
        (stock(Stock), stock(dict), []),
        (stock(dict), stock(Stock), []),
    ],
)
def test_each_change_of_state_is_named(before: ServiceDeclaration, after: ServiceDeclaration, told: list[str]) -> None:
    found = changes(before.entry(4), after.entry(4))
    assert len(found) == len(told), found
    assert all(text in line for text, line in zip(told, found, strict=True)), found
    check_release(before.entry(4), after)


@pytest.mark.parametrize(("before", "after"), [(Stock, Renamed), (Held, Stock)])
def test_state_that_loses_a_field_is_refused(before: type[BaseModel], after: type[BaseModel]) -> None:
    (gone,) = set(before.model_fields) - set(after.model_fields)
    with pytest.raises(DeclarationError, match=rf"no field {gone} any more.*state_version=2.*upgrade_state\(1\)"):
        check_release(stock(before).entry(4), stock(after))
    check_release(stock(before).entry(4), stock(after, 2))
    check_release(stock(before, 2).entry(4), stock(after))


def test_a_nested_class_that_changed_is_named() -> None:
    before = entry(Nested)

    class Item(BaseModel):
        code: str

    @message_type("Order")
    class Changed(BaseModel):
        items: list[Item]

    assert ["a nested class" in line for line in changes(before, entry(Changed))] == [True]


def test_a_service_without_a_contract_in_common_is_another_program() -> None:
    assert is_another_program(entry(Old), entry(Old, name="Sale"))
    assert not is_another_program(entry(Old), entry(More))
    assert not is_another_program({"partitions": 1}, entry(Old))


def test_documentation_of_a_class_is_no_change() -> None:
    @message_type("Order")
    class Documented(BaseModel):
        """Says more."""

        n: int
        colour: str

    assert entry(Old) == entry(Documented)
