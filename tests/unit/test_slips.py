"""Slips of the pen in declarations and calls: each error shows what to write."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from confluent_kafka import KafkaError
from pydantic import BaseModel

from conversations import (
    Brake,
    Client,
    Contract,
    Dialog,
    GiveUp,
    Kafka,
    Limits,
    NotAccepted,
    PeerError,
    PoisonPolicy,
    RetryLater,
    Service,
    UnknownService,
    WorkerSettings,
    local,
    run,
)
from conversations.errors import DeclarationError, LocalError
from conversations.kafka.clients import no_answer
from conversations.ports import Headers
from conversations.protocol.command import End
from conversations.testing import Parked, Simulation


class Ask(BaseModel):
    question: str = ""


class Answer(BaseModel):
    answer: str = ""


HELLO = Contract("Hello", sent_by_initiator=[Ask], sent_by_target=[Answer])
wrong: Any = lambda given: given  # noqa: E731 - hides the slip from the type checker, which would find most of them
SECOND = timedelta(seconds=1)


def handler(body: Ask, dialog: Dialog) -> None:
    dialog.send(Answer())


class Tally(BaseModel):
    count: int = 0


def swapped(dialog: Dialog[Any], body: Ask) -> None:
    pass


def swapped_again(body: Any, dialog: Ask) -> None:
    pass


def backwards(dialog: Any, error: PeerError) -> None:
    pass


def one(dialog: Dialog) -> None:
    pass


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
    (lambda: Simulation(shop(), shop()), "Simulation got two services with the name 'shop'"),
    (lambda: local(shop(), shop()).__enter__(), "local got two services with the name 'shop'"),
    (lambda: local(shop(), name="shop").__enter__(), "cannot be the service 'shop' that runs here"),
    (lambda: run(shop(), shop(), kafka=Kafka("localhost:9092")), "run got two services with the name 'shop'"),
    (lambda: Simulation(now=datetime(2026, 1, 1)), "datetime(2026, 1, 1, tzinfo=UTC)"),  # noqa: DTZ001 - the slip
    (lambda: Simulation(now=wrong("2026-01-01")), "not '2026-01-01'"),
    (lambda: PoisonPolicy(delays=wrong(SECOND)), "delays=[timedelta(seconds=5)], not datetime.timedelta(seconds=1)"),
    (lambda: PoisonPolicy(delays=wrong("5 s")), "delays=[timedelta(seconds=5)], not '5 s'"),
    (lambda: Service("shop", state=Tally, state_version=wrong("2")), "state_version is a number, not '2'"),
    (lambda: Service("shop", state=wrong(Tally())), "state takes the class: state=Tally"),
    (lambda: Kafka(wrong(9092)), "one text: Kafka('host:9092') or Kafka('host:9092,other:9092'), not 9092"),
    (lambda: Kafka(wrong(["host:9092"])), "one text: Kafka('host:9092')"),
    (lambda: Kafka("http://host:9092"), "'http://host:9092' is no address of a broker"),
    (lambda: Kafka(":9092"), "':9092' is no address of a broker"),
    (lambda: Kafka("host:x"), "'host:x' is no address of a broker"),
    (lambda: Kafka("host:9092,"), "'' is no address of a broker"),
    (lambda: Brake(dialogs=wrong("many")), "dialogs is a whole number, not 'many'"),
    (lambda: shop().on_error()(wrong(one)), "handler one must take (error, dialog)"),
    (lambda: shop().on_error()(wrong(backwards)), "(error, dialog) in this order"),
    (lambda: Service("a", accepts=[HELLO]).on(Ask)(wrong(one)), "handler one must take (body, dialog)"),
    (lambda: Service("a", accepts=[HELLO]).on(Ask)(wrong(swapped)), "(body, dialog) in this order"),
    (lambda: Service("a", accepts=[HELLO]).on(Ask)(wrong(swapped_again)), "(body, dialog) in this order"),
    (lambda: Service("größe"), "letters (a-z, A-Z), digits"),
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
    (lambda _: Client("shop", Kafka("localhost:9092"), timeout=wrong(3)), "for example timedelta(seconds=3)"),
    (lambda _: Client("web", Kafka("h:1")).begin_dialog(wrong(shop()), HELLO), "by its name, for example 'shop'"),
    (lambda sim: sim.peer("web").begin_dialog(wrong(shop()), HELLO), "by its name, for example 'shop'"),
    (lambda sim: sim.peer("web").begin_dialog("shpo", HELLO), "no service 'shpo' takes part"),
    (lambda sim: sim.decide(wrong("a letter"), "retry"), "an element of sim.parked(\"...\"), not 'a letter'"),
]


@pytest.mark.parametrize(("slip", "text"), CALLS)
def test_a_slip_in_a_call_is_told_and_changes_nothing(slip: Callable[[Simulation], object], text: str) -> None:
    with Simulation(shop()) as sim, pytest.raises(LocalError) as raised:
        slip(sim)
    assert text in str(raised.value)


def test_a_service_that_is_missing_is_named_when_a_simulation_comes_to_rest(caplog: pytest.LogCaptureFixture) -> None:
    """A warning, told once; a test that then finds no answer shows it."""
    with Simulation(shop()) as sim:
        dialog = sim.peer("web").begin_dialog("shpo", HELLO, wait_for_service=True)
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


# -- failures in a simulation --------------------------------------------------------------------------------------


def keeper(set_state: Callable[[Dialog[Any]], object]) -> Service[Tally]:
    service = Service("keeper", accepts=[HELLO], state=Tally)

    @service.on(Ask)
    def keep(body: Ask, dialog: Dialog[Tally]) -> None:
        set_state(dialog)

    return service


def replace_state(value: Any) -> Callable[[Dialog[Any]], object]:
    return lambda dialog: setattr(dialog.group, "state", value)


UNFIT: list[tuple[Callable[[Dialog[Any]], object], type[BaseException]]] = [
    (lambda dialog: setattr(dialog.group.state, "count", "many"), Exception),
    (replace_state(None), TypeError),
    (replace_state({1: 2}), TypeError),
]


@pytest.mark.parametrize(("set_state", "failure"), UNFIT, ids=["field", "none", "key"])
def test_state_that_cannot_be_kept_is_a_failure_that_a_simulation_raises(
    set_state: Callable[[Dialog[Any]], object], failure: type[BaseException]
) -> None:
    with Simulation(keeper(set_state)) as sim:
        sim.peer("web").begin_dialog("keeper", HELLO).send(Ask())
        with pytest.raises(failure):
            sim.run()
    with Simulation(keeper(set_state), raise_failures=False) as sim:
        sim.peer("web").begin_dialog("keeper", HELLO).send(Ask())
        sim.run()
        (held,) = sim.parked("keeper")
        assert held.attempts == 4
        assert sim.broker.ledger.handled == [], "no attempt counts as handled"


def test_state_that_is_too_large_is_a_failure_that_a_simulation_raises() -> None:
    service = Service("keeper", accepts=[HELLO])

    @service.on(Ask)
    def keep(body: Ask, dialog: Dialog) -> None:
        dialog.group.state["all"] = "x" * 5_000_000

    with Simulation(service) as sim:
        sim.peer("web").begin_dialog("keeper", HELLO).send(Ask())
        with pytest.raises(ValueError, match=r"group\.state has 5000010 bytes"):
            sim.run()


def verdict(raised: BaseException) -> Service[Any]:
    service = Service("polite", accepts=[HELLO])

    @service.on(Ask)
    def wait(body: Ask, dialog: Dialog) -> None:
        if dialog.now < START_OF_SHIFT:
            raise raised
        dialog.send(Answer())

    return service


START_OF_SHIFT = datetime.fromisoformat("2026-01-01T00:00:05+00:00")


@pytest.mark.parametrize("asked", [RetryLater(SECOND), ExceptionGroup, BaseExceptionGroup("", [RetryLater(SECOND)])])
def test_a_handler_that_asks_to_be_called_later_has_not_failed(asked: Any) -> None:
    asked = BaseExceptionGroup("both", [RetryLater(SECOND), ValueError("a")]) if asked is ExceptionGroup else asked
    with Simulation(verdict(asked)) as sim:
        dialog = sim.peer("web").begin_dialog("polite", HELLO)
        dialog.send(Ask())
        sim.run()
        assert dialog.received() == []
        sim.advance(6 * SECOND)
        assert dialog.received() == [Answer()]


def test_a_handler_that_gives_up_has_failed() -> None:
    with Simulation(verdict(GiveUp("never"))) as sim:
        sim.peer("web").begin_dialog("polite", HELLO).send(Ask())
        with pytest.raises(GiveUp):
            sim.run()


# -- decisions in a simulation -------------------------------------------------------------------------------------


def failing() -> Service[Any]:
    service = Service("desk", accepts=[HELLO])

    @service.on(Ask)
    def answer(body: Ask, dialog: Dialog) -> None:
        if body.question == "bad":
            raise ValueError(body.question)
        dialog.send(Answer(answer=body.question))

    return service


@pytest.mark.parametrize(
    ("action", "more", "answers"),
    [
        ("retry", {}, []),
        ("skip", {}, ["good"]),
        ("edit", {"body": Ask(question="better")}, ["better", "good"]),
        ("EDIT", {"body": b'{"question": "better"}'}, ["better", "good"]),
        ("end", {"code": 5, "description": "enough"}, []),
    ],
)
def test_a_test_decides_about_a_parked_message_with_a_word(action: str, more: Any, answers: list[str]) -> None:
    with Simulation(failing(), raise_failures=False) as sim:
        dialog = sim.peer("web").begin_dialog("desk", HELLO)
        dialog.send(Ask(question="bad"))
        dialog.send(Ask(question="good"))
        sim.run()
        held: Parked
        (held,) = sim.parked("desk")
        sim.decide(held, action, **more)
        sim.run()
        assert [it.answer for it in dialog.received() if isinstance(it, Answer)] == answers
        assert (dialog.error is not None) == (action == "end")
        assert len(sim.parked("desk")) == (action == "retry")


@pytest.mark.parametrize(
    ("action", "more", "text"),
    [
        ("again", {}, "an operator decides 'retry', 'edit', 'skip', 'end', not 'again'"),
        ("edit", {}, 'only the decision "edit" takes a body'),
        ("retry", {"body": Ask()}, 'only the decision "edit" takes a body'),
        ("edit", {"body": Answer()}, "the body must be a Ask, not Answer"),
        ("end", {}, "8419"),
        ("end", {"code": 5}, "8422"),
    ],
)
def test_a_slip_in_a_decision_is_told(action: str, more: Any, text: str) -> None:
    with Simulation(failing(), raise_failures=False) as sim:
        sim.peer("web").begin_dialog("desk", HELLO).send(Ask(question="bad"))
        sim.run()
        with pytest.raises(LocalError) as raised:
            sim.decide(sim.parked("desk")[0], action, **more)
        assert text in str(raised.value)


# -- handlers ------------------------------------------------------------------------------------------------------


def test_a_timer_without_a_handler_is_told_where_it_is_set() -> None:
    service = Service("forgetful", accepts=[HELLO])

    @service.on(Ask)
    def ask(body: Ask, dialog: Dialog) -> None:
        dialog.set_timer(SECOND)

    with Simulation(service) as sim:
        sim.peer("web").begin_dialog("forgetful", HELLO).send(Ask())
        with pytest.raises(LocalError, match=r"@service\.on_timer\("):
            sim.run()


@pytest.mark.parametrize("is_async", [False, True])
def test_a_value_that_a_handler_returns_is_told_once(caplog: pytest.LogCaptureFixture, is_async: bool) -> None:
    service = Service("returns", accepts=[HELLO])

    def plain(body: Ask, dialog: Dialog) -> Any:
        return Answer(answer="lost")

    async def waiting(body: Ask, dialog: Dialog) -> Any:
        return Answer(answer="lost")

    service.on(Ask)(waiting if is_async else plain)
    with Simulation(service) as sim, caplog.at_level(logging.WARNING, "conversations.worker"):
        for _ in range(3):
            sim.peer("web").begin_dialog("returns", HELLO).send(Ask())
        sim.run()
    told = [record.getMessage() for record in caplog.records if "returned" in record.getMessage()]
    assert len(told) == 1
    assert told[0].endswith("returned a value of class Answer, which is ignored: use dialog.send(...)")


# -- clients and addresses -----------------------------------------------------------------------------------------


def refusals(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [it.getMessage() for it in caplog.records if "refuses a command" in it.getMessage()]


def test_a_refused_command_is_told_in_the_log_and_a_flood_of_them_in_a_few_lines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with Simulation(shop(), partitions=1) as sim, caplog.at_level(logging.WARNING, "conversations.worker"):
        dialog = sim.peer("web").begin_dialog("shop", HELLO)
        dialog.send(Ask())
        sim.run()
        dialog.end()
        sim.run()
        assert refusals(caplog) == []
        dialog._ask(End())
        sim.run()
        (told,) = refusals(caplog)
        assert "service web" in told
        assert dialog.id in told
        assert "84" in told
        for _ in range(100):
            dialog._ask(End())
        sim.run()
        assert len(refusals(caplog)) == 5
        assert refusals(caplog)[-1].endswith(
            "more refusals within the next minute are not logged, but are events and dead letters"
        )
        sim.advance(timedelta(minutes=1))
        dialog._ask(End())
        sim.run()
        assert len(refusals(caplog)) == 6


def test_a_refusal_of_an_unknown_id_says_how_a_dialog_with_a_group_is_named(caplog: pytest.LogCaptureFixture) -> None:
    with local(shop()) as client, caplog.at_level(logging.WARNING, "conversations.worker"):
        chosen = client.new_id()
        assert client.begin_dialog("shop", HELLO, id=chosen, group="desk").id == f"{chosen}@desk"
        for name in (chosen, f"{chosen}@desk"):
            with client.dialog(name) as nowhere:
                nowhere.send(Ask())
        # The answer to a later command arrives after the earlier commands were read and refused.
        client.request("shop", HELLO, Ask(), reply=Answer, timeout=timedelta(minutes=1)).result()
    told = sorted(refusals(caplog))
    assert [chosen in text and "no such dialog (8426)" in text for text in told] == [True, True]
    assert ["ID@GROUP" in text for text in told] == [True, False]


def test_a_client_names_the_services_that_are_similar_to_an_unknown_one() -> None:
    with local(shop()) as client:
        begun = client.begin_dialog("shpo", HELLO)
        with pytest.raises(UnknownService, match=r"'shpo' \(8490\).* It names shop\."), begun:
            begun.send(Ask())


class Silent:
    """A sink to a Kafka that confirms nothing."""

    def append_async(
        self, key: bytes, values: Sequence[bytes], headers: Headers | None = None, *, to: str = ""
    ) -> Future[None]:
        return Future()

    def close(self) -> None:
        pass


def test_a_write_that_is_not_confirmed_says_that_it_may_take_effect_and_how_to_repeat_it() -> None:
    client = Client("shop", Kafka("h:1"), timeout=timedelta(0))
    client._sinks["shop"] = Silent()
    begun = client.begin_dialog("desk", HELLO)
    with pytest.raises(NotAccepted, match=r"may still take effect.*with the same id=.*client\.new_id\(\)"), begun:
        pass
    known = client.dialog(begun.id)
    with pytest.raises(NotAccepted, match=r"may still take effect.*second time"), known:
        known.end()


def test_local_that_is_not_a_plain_with_block_says_what_to_write() -> None:
    async def enter() -> None:
        async with local(shop()):
            pass

    with pytest.raises(LocalError, match=r"`with local\(\.\.\.\) as client:`"):
        asyncio.run(enter())
    with pytest.raises(AttributeError, match=r"write `with local\(\.\.\.\) as client:` and use client\.begin_dialog"):
        wrong(local(shop())).begin_dialog("shop", HELLO)


@pytest.mark.parametrize("address", ["h:1", "h", "SSL://h:9092", "[::1]:9092", "a:1, b:2"])
def test_addresses_that_the_client_for_kafka_takes_are_taken(address: str) -> None:
    assert Kafka(address).bootstrap == address


def test_an_address_without_a_port_is_told_when_no_broker_answers() -> None:
    error = KafkaError(KafkaError._ALL_BROKERS_DOWN)
    assert "h has no port, so port 9092 was tried" in str(no_answer(Kafka("h, i:1"), error, at_once=True))
    assert "no port" not in str(no_answer(Kafka("h:1"), error, at_once=True))


SETTINGS: list[tuple[Callable[[], object], str]] = [
    (lambda: WorkerSettings(concurrency=wrong("many")), "concurrency is a whole number, not 'many'"),
    (lambda: WorkerSettings(concurrency=wrong(True)), "concurrency is a whole number, not True"),
    (lambda: WorkerSettings(patience=wrong(1)), "patience is a timedelta, for example timedelta(seconds=1), not 1"),
    (lambda: WorkerSettings(limits=wrong(1)), "limits is an object of class Limits, not 1"),
    (lambda: WorkerSettings(brake=wrong("on")), "brake is an object of class Brake, not 'on'"),
    (lambda: Limits(body_bytes=wrong("1")), "body_bytes is a whole number, not '1'"),
]


@pytest.mark.parametrize(("slip", "text"), SETTINGS, ids=[text for _, text in SETTINGS])
def test_a_setting_of_a_wrong_type_is_told(slip: Callable[[], object], text: str) -> None:
    with pytest.raises(ValueError, match="is a") as raised:
        slip()
    assert str(raised.value) == text


def test_a_setting_may_be_off_or_never_where_its_table_says_so() -> None:
    assert WorkerSettings(brake=None, rollbacks=None).brake is None
