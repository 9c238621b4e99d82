"""The Pydantic bodies that contenders validate and answer."""

from __future__ import annotations

from pydantic import BaseModel


class Order(BaseModel):
    number: int
    customer: str
    item: str
    quantity: int


class Receipt(BaseModel):
    number: int
    customer: str
    item: str
    quantity: int


ORDER = Order(number=1_234_567, customer="customer-0001234", item="a thing of some sort", quantity=3)
