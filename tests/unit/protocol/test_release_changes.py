"""What the next release of a service does to messages in flight, told from two entries of the catalog."""

from datetime import timedelta

import pytest
from pydantic import BaseModel

from conversations import Contract, Service, message_type
from conversations.protocol.release_changes import changes, is_another_program


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
