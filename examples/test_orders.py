"""Tests the saga with its three real services, and the page in front of it, without Kafka."""

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from http.server import ThreadingHTTPServer
from threading import Event, Thread
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from conversations import local
from conversations.testing import Faults, PeerDialog, Simulation
from examples.order_page import Shop, handler_for
from examples.orders import (
    DEPOSITS,
    ORDERS,
    PAYMENT_TIME,
    PAYMENTS,
    SHELF,
    Charge,
    Charged,
    Deposit,
    OrderResult,
    PlaceOrder,
    Refund,
    orders,
    payments,
    stock,
)


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation(orders, payments, stock) as sim:
        yield sim


def pay_in(sim: Simulation, amount: int) -> None:
    dialog = sim.peer("web").begin_dialog("payments", DEPOSITS, to_group="account-ada")
    dialog.send(Deposit(amount=Decimal(amount)))
    dialog.end()


def place(sim: Simulation, number: int, article: str = "lamp", pieces: int = 1) -> PeerDialog:
    dialog = sim.peer("web").begin_dialog("orders", ORDERS, to_group=f"order-{number}")
    dialog.send(PlaceOrder(customer="ada", article=article, pieces=pieces))
    return dialog


def value(sim: Simulation, service: str, key: str) -> object:
    found = sim.state(service, key)
    assert found is not None
    return found.value.model_dump(include={"status", "balance", "pieces", "reserved", "charged"})


def test_an_order_is_confirmed(sim: Simulation) -> None:
    pay_in(sim, 100)
    sim.run()
    order = place(sim, 1, pieces=2)
    sim.run()
    assert order.take(OrderResult).status == "confirmed"
    assert order.ended
    assert value(sim, "orders", "order-1") == {"status": "confirmed"}
    assert value(sim, "payments", "account-ada") == {"balance": 10, "charged": {}}
    assert value(sim, "stock", "article-lamp") == {"pieces": SHELF - 2, "reserved": {}}
    assert sim.open_dialogs() == []


def test_a_refusal_puts_the_goods_back(sim: Simulation) -> None:
    order = place(sim, 1)
    sim.run()
    assert order.take(OrderResult).status == "declined"
    assert value(sim, "stock", "article-lamp") == {"pieces": SHELF, "reserved": {}}
    assert sim.open_dialogs() == []


def test_more_than_there_is_is_sold_out(sim: Simulation) -> None:
    order = place(sim, 1, pieces=SHELF + 1)
    sim.run()
    assert order.take(OrderResult).status == "sold out"
    assert sim.open_dialogs() == []


def test_a_late_payment_is_paid_back() -> None:
    with Simulation(orders, stock) as sim:
        bank = sim.peer("payments", accepts=[PAYMENTS])
        order = place(sim, 1)
        sim.run()
        assert bank.dialog().take(Charge).amount == 45
        sim.advance(PAYMENT_TIME + timedelta(seconds=1))
        assert order.take(OrderResult).status == "cancelled"
        assert value(sim, "stock", "article-lamp") == {"pieces": SHELF, "reserved": {}}
        bank.dialog().send(Charged())
        sim.run()
        assert bank.dialog().take(Refund) == Refund()
        assert value(sim, "orders", "order-1") == {"status": "cancelled"}


def test_two_services_change_one_account(sim: Simulation) -> None:
    pay_in(sim, 50)
    sim.run()
    placed = [place(sim, number) for number in (1, 2)]
    sim.run()
    assert sorted(it.take(OrderResult).status for it in placed) == ["confirmed", "declined"]
    pay_in(sim, 40)
    sim.run()
    again = place(sim, 3)
    sim.run()
    assert again.take(OrderResult).status == "confirmed"
    assert value(sim, "payments", "account-ada") == {"balance": 0, "charged": {}}


def test_an_order_that_fails_waits_for_an_operator_and_others_go_on() -> None:
    with Simulation(orders, payments, stock, raise_failures=False) as sim:
        wrong, other = place(sim, 1, article="unicorn"), place(sim, 2)
        sim.run()
        assert other.take(OrderResult).status == "declined"
        assert wrong.received() == []
        (held,) = sim.parked("orders")
        assert held.failure == "KeyError: 'unicorn'"


@pytest.mark.parametrize("seed", range(5))
def test_everything_adds_up_under_faults(seed: int) -> None:
    faults = Faults(seed=seed, duplicate=0.1, crash=0.03, revoke=0.02, abort=0.03)
    with Simulation(orders, payments, stock, faults=faults, workers=2) as sim:
        pay_in(sim, 450)
        sim.run()
        placed = [place(sim, number) for number in range(20)]
        sim.run()
        results = [it.take(OrderResult).status for it in placed]
        assert results.count("confirmed") == 10
        assert results.count("declined") == 10
        assert value(sim, "stock", "article-lamp") == {"pieces": SHELF - 10, "reserved": {}}
        assert value(sim, "payments", "account-ada") == {"balance": 0, "charged": {}}


def test_the_page_shows_the_status_of_an_order() -> None:
    with local(orders, payments, stock, name="web", initiates=[ORDERS, DEPOSITS]) as client:
        shop = Shop(client)
        shop.pay_in("ada", Decimal(50))
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler_for(shop))
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            address = f"http://127.0.0.1:{server.server_port}/"
            fields = urlencode({"customer": "ada", "article": "lamp", "pieces": 1}).encode()
            with urlopen(address) as form, urlopen(f"{address}orders", fields) as page:
                assert "Order" in form.read().decode()
                where, text = page.url, page.read().decode()
            while "confirmed" not in text:
                Event().wait(0.05)
                with urlopen(where) as page:
                    text = page.read().decode()
            with pytest.raises(HTTPError) as refused, urlopen(f"{address}orders", b"customer=<b>"):
                pass
            refused.value.close()
            assert refused.value.code == 400
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
