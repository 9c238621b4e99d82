"""What Spark makes of the bodies that Pydantic describes."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter

from spark_jobs.reading.bodies import field_of, spark_type


class Colour(Enum):
    RED = "red"


class Place(BaseModel):
    city: str
    zip: int | None = None


class Tree(BaseModel):
    left: Tree | None = None


class Order(BaseModel):
    place: Place
    lines: list[Place]
    at: datetime
    day: date
    price: Decimal
    colour: Colour
    notes: dict[str, int]
    either: int | str
    flag: bool
    share: float


ORDER = (
    "struct<place:struct<city:string,zip:bigint>,lines:array<struct<city:string,zip:bigint>>,at:timestamp,"
    "day:date,price:string,colour:string,notes:map<string,bigint>,either:string,flag:boolean,share:double>"
)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (int, "bigint"),
        (str, "string"),
        (list[int], "array<bigint>"),
        (int | None, "bigint"),
        (Any, "string"),
        (dict[str, Place], "map<string,struct<city:string,zip:bigint>>"),
        (Order, ORDER),
    ],
)
def test_a_body_becomes_the_type_that_holds_all_of_it(body: Any, said: str) -> None:
    assert spark_type(TypeAdapter(body).json_schema(mode="serialization")).simpleString() == said


def test_a_body_within_itself_ends_somewhere() -> None:
    assert spark_type(TypeAdapter(Tree).json_schema(mode="serialization")).simpleString().endswith("string" + ">" * 10)


def test_names_of_types_become_names_of_fields() -> None:
    assert field_of("orders.Ask-2") == "orders_Ask_2"
