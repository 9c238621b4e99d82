"""Slips of the pen in declarations and calls: each error shows what to write."""

import logging
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel

from conversations import Client, Contract, Dialog, Kafka, PoisonPolicy, Service, local, run
from conversations.errors import DeclarationError, LocalError
from conversations.testing import Simulation


class Ask(BaseModel):
    question: str = ""


class Answer(BaseModel):
    answer: str = ""


HELLO = Contract("Hello", sent_by_initiator=[Ask], sent_by_target=[Answer])
wrong: Any = lambda given: given  # noqa: E731 - hides the slip from the type checker, which would find most of them
SECOND = timedelta(seconds=1)


def handler(body: Ask, dialog: Dialog) -> None:
    dialog.send(Answer())


def shop() -> Service:
    service = Service("shop", accepts=[HELLO])
    service.on(Ask)(handler)
    return service


DECLARATIONS: list[tuple[Callable[[], object], str]] = [
    (lambda: Service("shop", accepts=wrong(HELLO)), "accepts=[Contract('Hello')], with brackets"),
    (lambda: Service("shop", initiates=wrong(HELLO)), "initiates=[Contract('Hello')], with brackets"),
    (lambda: Service("shop", accepts=wrong(["Hello"])), "accepts takes objects of class Contract, not 'Hello'"),
    (lambda: Service("shop", accepts=wrong("Hello")), "accepts takes objects of class Contract, not 'Hello'"),
    (lambda: Service("shop", accepts=wrong([Ask])), "accepts takes objects of class Contract"),
    (lambda: Service("shop", accepts=[HELLO], ignores=wrong("Ask")), "ignores=['Ask'], with brackets"),
    (lambda: Service("shop", accepts=[HELLO], ignores=wrong(Ask)), "ignores=[Ask], with brackets"),
    (lambda: Service("shop", poison=wrong(PoisonPolicy())), "poison=[PoisonPolicy(...)], with brackets"),
    (lambda: Service(wrong(HELLO)), "the name of a service is a text"),
    (lambda: Contract("H", sent_by_initiator=wrong(["Ask"])), "MessageType('Ask', \"bytes\")"),
    (lambda: Contract("H", sent_by_initiator=wrong("bytes")), 'MessageType(NAME, "bytes")'),
    (lambda: Contract("H", sent_by_initiator=wrong("Ask")), "MessageType('Ask', \"bytes\")"),
    (lambda: Contract("H", sent_by_initiator=wrong(Ask)), "sent_by_initiator=[Ask], with brackets"),
    (lambda: Contract("H", sent_by_any=wrong([Ask()])), "by the class of its body, not by Ask("),
    (lambda: Contract("H", sent_by_any=[Ask], lifetime=wrong(3)), "a timedelta or None, not 3"),
    (lambda: shop().on(wrong(handler)), "@service.on(Ask), not @service.on over <function handler"),
    (lambda: shop().on_end(wrong(handler)), "@service.on_end()"),
    (lambda: shop().on_timer(wrong(partial(handler))), "@service.on_timer()"),
    (lambda: Service("shop", poison=wrong([None])), "poison takes objects of class PoisonPolicy, not None"),
    (lambda: Client("shop", wrong("localhost:9092")), "Kafka('host:9092'), not as 'localhost:9092'"),
    (lambda: local(shop(), kafka=wrong("localhost:9092")).__enter__(), "Kafka('host:9092'), not as 'localhost:9092'"),
    (lambda: run(shop(), kafka=wrong("localhost:9092")), "Kafka('host:9092'), not as 'localhost:9092'"),
    (lambda: run(wrong([shop()]), kafka=Kafka("localhost:9092")), "run(orders, billing), or run(*services)"),
    (lambda: shop().on_error(wrong(handler)), "@service.on_error()"),
    (lambda: shop().on_error(wrong("Hello")), "on_error takes objects of class Contract, not 'Hello'"),
    (lambda: shop().on(wrong(HELLO)), "by the class of its body, not by Contract('Hello')"),
    (lambda: shop().on(Ask, contract=wrong("Hello")), "contract takes objects of class Contract, not 'Hello'"),
    (lambda: Service("a", accepts=[HELLO]).on(Ask, time_limit=wrong(3))(handler), "time limit is a timedelta, not 3"),
    (lambda: shop().upgrade_state(wrong(handler)), "@service.upgrade_state(1)"),
    (lambda: Simulation(wrong([shop()])), "Simulation(orders, billing), or Simulation(*services)"),
    (lambda: Simulation(wrong(HELLO)), "Simulation takes objects of class Service"),
    (lambda: local(wrong([shop()])).__enter__(), "local(orders, billing), or local(*services)"),
    (lambda: local(shop(), initiates=wrong(HELLO)).__enter__(), "initiates=[Contract('Hello')], with brackets"),
]


@pytest.mark.parametrize(("slip", "text"), DECLARATIONS, ids=[text for _, text in DECLARATIONS])
def test_a_slip_in_a_declaration_is_told_with_the_way_to_write_it(slip: Callable[[], object], text: str) -> None:
    with pytest.raises(DeclarationError) as raised:
        slip()
    assert text in str(raised.value)


CALLS: list[tuple[Callable[[Simulation], object], str]] = [
    (lambda sim: sim.worker("shpo"), "no service 'shpo' takes part in this simulation; there are: shop"),
    (lambda sim: sim.worker("shop", 1), "only workers from 0 to 0: Simulation(..., workers=N)"),
    (lambda sim: sim.worker("shop", -1), "no worker -1"),
    (lambda sim: sim.worker(wrong(shop())), "takes the name of a service, not Service('shop')"),
    (lambda sim: sim.crash("shpo"), "there are: shop"),
    (lambda sim: sim.set_clock_off("shpo", SECOND), "there are: shop"),
    (lambda sim: sim.dead_letters("shpo"), "there are: shop"),
    (lambda sim: sim.parked("shpo"), "there are: shop"),
    (lambda sim: sim.turn_queue("shpo", on=False), "there are: shop"),
    (
        lambda sim: sim.peer("web").begin_dialog("shop", wrong("Hello")),
        "an object of class Contract, not under 'Hello'",
    ),
    (lambda sim: sim.peer("web").begin_dialog("shop", HELLO).take(wrong("Answer")), "takes the class of the body"),
    (lambda _: Client("shop", Kafka("localhost:9092"), timeout=wrong(3)), "timeout takes a timedelta, not 3"),
    (
        lambda _: Client("shop", Kafka("localhost:9092")).begin_dialog("shop", wrong("Hello")),
        "an object of class Contract, not under 'Hello'",
    ),
]


@pytest.mark.parametrize(("slip", "text"), CALLS)
def test_a_slip_in_a_call_is_told_and_changes_nothing(slip: Callable[[Simulation], object], text: str) -> None:
    with Simulation(shop()) as sim, pytest.raises(LocalError) as raised:
        slip(sim)
    assert text in str(raised.value)


def test_a_service_that_is_missing_is_named_when_a_simulation_comes_to_rest(caplog: pytest.LogCaptureFixture) -> None:
    """A warning, told once; a test that then finds no answer shows it."""
    with Simulation(shop()) as sim:
        dialog = sim.peer("web").begin_dialog("shpo", HELLO)
        dialog.send(Ask())
        with caplog.at_level(logging.WARNING, "conversations.testing"):
            sim.run()
            sim.advance(SECOND)
        told = [record.getMessage() for record in caplog.records if record.name == "conversations.testing"]
        assert [("'shpo'" in text, "sim.peer('shpo', accepts=[...])" in text) for text in told] == [(True, True)]
        sim.peer("shpo", accepts=[HELLO])
        sim.advance(timedelta(minutes=1))
        assert sim.peer("shpo").dialog().received() == [Ask()]


def test_a_client_of_local_says_that_its_block_is_over() -> None:
    with local(shop()) as client:
        client.close()  # no end of the block
        block = client.begin_dialog("shop", HELLO)
        block_of_before = block.id
    slips: list[Callable[[], object]] = [
        lambda: client.begin_dialog("shop", HELLO),
        lambda: client.dialog(block_of_before),
        lambda: client.request("shop", HELLO, Ask(), reply=Answer, timeout=SECOND),
    ]
    for slip in slips:
        with pytest.raises(LocalError, match=r"with local.* is over"):
            slip()
    with pytest.raises(LocalError, match=r"with local.* is over"), block:
        block.send(Ask())
