"""Tests a service that a topic feeds, without Kafka."""

import json

from conversations import PlainRecord
from conversations.testing import Simulation
from examples.topic_orders import order_placed, stock, web


def order(number: int, kind: str = "placed") -> str:
    return json.dumps({"kind": kind, "order": number, "customer": number % 2, "item": "teapot"})


def test_each_order_is_reserved_and_confirmed() -> None:
    with Simulation(web, stock) as sim:
        for number in range(4):
            sim.feed("shop.orders", str(number), order(number))
        sim.feed("shop.orders", "9", order(9, "cancelled"))
        sim.run()
        confirmed = sorted(json.loads(record.value or b"")["order"] for record in sim.published("shop.confirmed"))
        assert confirmed == [0, 1, 2, 3]
        assert sim.feed_counts("web", "shop.orders").skipped == 1


def test_a_record_that_is_no_order_is_a_dead_letter() -> None:
    with Simulation(web, stock, raise_failures=False) as sim:
        sim.feed("shop.orders", "1", "no JSON")
        sim.feed("shop.orders", "2", order(2))
        sim.run()
        (letter,) = sim.dead_letters("web")
        assert letter.value == b"no JSON"
        assert len(sim.published("shop.confirmed")) == 1


def test_the_function_alone() -> None:
    dialog = order_placed(PlainRecord(value=order(3).encode()))
    assert dialog is not None
    assert dialog.group == "customer-1"
