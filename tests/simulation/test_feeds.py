"""Records of plain topics that begin dialogs: each begins one, is skipped, or becomes a dead letter, whatever fails."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from conversations import (
    Contract,
    DeclarationError,
    Dialog,
    LocalError,
    MessageType,
    NewDialog,
    PlainRecord,
    Service,
    local,
)
from conversations.protocol import letters
from conversations.protocol.command import Begin, Command, Send, encode_command
from conversations.protocol.plain_records import KEY, PART, TOPIC, WHY, Source
from conversations.protocol.topics import COMMANDS, DEAD_LETTER, QUEUE, service_topic
from conversations.testing import Faults, Simulation
from conversations.testing.reading import visible
from tests.support.waiting import until

TOPIC_NAME = "shop.orders"


class Placed(BaseModel):
    n: int


class Shipped(BaseModel):
    n: int


ORDERS = Contract(
    "Orders",
    sent_by_initiator=[Placed, MessageType("scan", "bytes")],
    sent_by_target=[Shipped],
    lifetime=timedelta(days=7),
)
NAMED = Contract("Named", sent_by_initiator=[Placed], group_named_by=["web"])
Turn = Callable[[PlainRecord], object]


def placed(record: PlainRecord) -> object:
    """Turn the value into a message; a record without a value is not for us."""
    return None if record.value is None else Placed.model_validate_json(record.value)


def web(turn: Turn = placed, *, contract: Contract = ORDERS, start: Any = "earliest") -> Service[dict[str, Any]]:
    service = Service("web", initiates=[ORDERS, NAMED])
    service.from_topic(TOPIC_NAME, to="orders", contract=contract, start=start)(turn)

    @service.on(Shipped)
    def shipped(body: Shipped, dialog: Dialog[dict[str, Any]]) -> None:
        dialog.group.state.setdefault("shipped", []).append(body.n)

    return service


def orders() -> tuple[Service[dict[str, Any]], list[int]]:
    """A service that notes each order and answers it. Its list has the orders of attempts that were not committed, too."""
    service = Service("orders", accepts=[ORDERS, NAMED])
    seen: list[int] = []

    @service.on(Placed)
    def take(body: Placed, dialog: Dialog[dict[str, Any]]) -> None:
        seen.append(body.n)
        dialog.group.state.setdefault("taken", []).append(body.n)
        if dialog.contract == "Orders":
            dialog.send(Shipped(n=body.n))

    @service.on("scan")
    def scanned(body: bytes, _dialog: Dialog[dict[str, Any]]) -> None:
        seen.append(len(body))

    return service, seen


def text(n: int) -> str:
    return Placed(n=n).model_dump_json()


def copied(sim: Simulation) -> list[tuple[bytes | None, Mapping[str, bytes]]]:
    """The values and headers of the letters of ``web``."""
    found = visible(sim.broker, service_topic("conv", "web", DEAD_LETTER))
    return [(record.value(), dict(record.headers() or ())) for record in found]


def test_each_record_begins_a_dialog_in_the_order_of_its_key() -> None:
    service, seen = orders()
    with Simulation(web(lambda record: NewDialog(placed(record), group=(record.key or b"").decode())), service) as sim:
        for n in range(9):
            sim.feed(TOPIC_NAME, f"customer-{n % 3}", text(n))
        sim.run()
        assert sorted(seen) == list(range(9))
        for customer in range(3):
            state = sim.state("web", f"customer-{customer}")
            assert state is not None
            assert state.value["shipped"] == [n for n in range(9) if n % 3 == customer]
        assert sim.feed_counts("web", TOPIC_NAME).begun == 9
        sim.check_invariants()


def test_what_the_function_gets() -> None:
    found: list[PlainRecord] = []
    with Simulation(web(found.append)) as sim:
        sim.feed(TOPIC_NAME, "k", "v", headers={"h": "1"})
        sim.feed(TOPIC_NAME, "k", None)
        sim.run()
        first, second = found
        assert (first.topic, first.key, first.value, first.headers) == (TOPIC_NAME, b"k", b"v", (("h", b"1"),))
        assert first.timestamp is not None
        assert first.timestamp.timestamp() * 1_000_000 == sim.clock.now()
        assert (second.partition, second.offset, second.value) == (first.partition, first.offset + 1, None)
        counts = sim.feed_counts("web", TOPIC_NAME)
        assert (counts.begun, counts.skipped, counts.refused) == (0, 2, 0)


def test_several_messages_named_types_an_end_and_a_lifetime() -> None:
    service, seen = orders()

    def turn(record: PlainRecord) -> NewDialog:
        dialog = NewDialog(placed(record), lifetime=timedelta(hours=1))
        return dialog.send(b"123", type="scan").end()

    with Simulation(web(turn), service) as sim:
        sim.feed(TOPIC_NAME, None, text(7))
        sim.run()
        assert seen == [7, 3]
        assert sim.open_dialogs() == []


def test_the_function_names_the_group_at_the_target() -> None:
    service, _ = orders()
    with Simulation(web(lambda record: NewDialog(placed(record), to_group="till"), contract=NAMED), service) as sim:
        sim.feed(TOPIC_NAME, "a", text(1))
        sim.feed(TOPIC_NAME, "a", text(2))
        sim.run()
        state = sim.state("orders", "till")
        assert state is not None
        assert sorted(state.value["taken"]) == [1, 2]


def test_a_record_that_is_read_again_begins_no_second_dialog() -> None:
    """For example after an operator has set the offsets back, or if a transaction were committed twice."""
    service, seen = orders()
    with Simulation(web(), service) as sim:
        for n in range(5):
            sim.feed(TOPIC_NAME, f"{n}", text(n))
        sim.run()
        sim.broker.fed["web", TOPIC_NAME][:] = [0, 0, 0]
        sim.run()
        assert sim.feed_counts("web", TOPIC_NAME).begun == 10
        assert sorted(seen) == list(range(5))
        assert sim.dead_letters("web") == []


def test_the_records_of_an_earlier_topic_or_of_another_service_begin_other_dialogs() -> None:
    first = Source("conv", "web", TOPIC_NAME, "id-1")
    others = [
        Source("conv", "web", TOPIC_NAME, "id-2"),
        Source("conv", "shop", TOPIC_NAME, "id-1"),
        Source("test", "web", TOPIC_NAME, "id-1"),
    ]
    assert first.id_of(3, 7) == Source("conv", "web", TOPIC_NAME, "id-1").id_of(3, 7)
    ids = [first.id_of(3, 7), first.id_of(7, 3), first.id_of(3, 8), *(other.id_of(3, 7) for other in others)]
    assert len(set(ids)) == 6


def test_a_record_that_is_years_old_begins_a_dialog() -> None:
    """A backlog may be older than the time within which an owner recognizes a command."""
    service, seen = orders()
    with Simulation(service) as sim:
        sim.broker.create_topic(TOPIC_NAME, 3)
        sim.broker.fed["none", TOPIC_NAME] = [0, 0, 0]
        sim.feed(TOPIC_NAME, None, text(1))
        sim.advance(timedelta(days=800))
        sim.deploy(web())
        sim.run()
        assert seen == [1]


def bad_body(record: PlainRecord) -> object:
    return Placed.model_construct(n="seven")  # type: ignore[arg-type]  # on purpose


def raises(error: BaseException) -> Turn:
    def turn(record: PlainRecord) -> object:
        raise error

    return turn


async def later() -> None:
    """A result that somebody would have to wait for."""


BAD: dict[str, tuple[Turn, str]] = {
    "raises": (raises(KeyError("customer")), "KeyError: 'customer'"),
    "exits": (raises(SystemExit(1)), "SystemExit"),
    "waits": (lambda _: later(), "something to await"),
    "body": (bad_body, "InvalidBody"),
    "class": (lambda _: 7, "no message type fits"),
    "direction": (lambda _: Shipped(n=1), "WrongDirection"),
    "empty": (lambda _: NewDialog(), "at least one message"),
    "large": (lambda _: NewDialog().send(bytes(1_000_001), type="scan"), "1000001 bytes"),
    "many": (lambda _: NewDialog(*[Placed(n=1)] * 10_000), "10000 messages"),
    "together": (lambda _: NewDialog(bytes(600_000), bytes(600_000)), "one command has at most"),
    "group": (lambda _: NewDialog(Placed(n=1), group=""), "8414"),
    "named": (lambda _: NewDialog(Placed(n=1), to_group="till"), "8494"),
    "lifetime": (lambda _: NewDialog(Placed(n=1), lifetime=timedelta(0)), "8411"),
    "lives": (lambda _: NewDialog(Placed(n=1), lifetime=timedelta(days=8)), "longer than contract 'Orders' allows"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_record_that_cannot_be_turned_into_a_message_is_a_letter_and_the_next_one_goes_on(kind: str) -> None:
    turn, why = BAD[kind]
    service, seen = orders()
    picky = web(lambda record: placed(record) if record.key == b"good" else turn(record))
    with Simulation(picky, service, partitions=1, raise_failures=False) as sim:
        sim.feed(TOPIC_NAME, "bad", "the bytes", headers={"trace": "5"})
        sim.feed(TOPIC_NAME, "good", text(1))
        sim.run()
        assert seen == [1]
        ((value, headers),) = copied(sim)
        assert value == b"the bytes"
        assert headers[letters.REASON] == letters.SET_ASIDE.encode()
        assert why in headers[letters.EXCEPTION_MESSAGE].decode()
        assert headers[letters.ORIGINAL + TOPIC] == TOPIC_NAME.encode()
        assert headers[letters.ORIGINAL + KEY] == b"bad"
        assert headers[letters.ORIGINAL + "trace"] == b"5"
        counts = sim.feed_counts("web", TOPIC_NAME)
        assert (counts.begun, counts.refused) == (1, 1)


def test_the_failure_of_the_function_is_raised_by_a_simulation() -> None:
    with Simulation(web()) as sim:
        sim.feed(TOPIC_NAME, None, "no JSON")
        with pytest.raises(ValueError, match="Placed"):
            sim.run()


def test_a_refused_record_whose_bytes_are_a_command_is_not_carried_out() -> None:
    """Whoever writes to the plain topic has no right to give commands to the service."""
    service, seen = orders()
    with Simulation(web(raises(ValueError("no"))), service, raise_failures=False) as sim:
        conversation = Source("a", "b", "c", "d").id_of(0, 0)
        send = Send("Placed", "application/json", text(1).encode())
        command = Command(
            conversation.bytes, conversation.bytes, True, str(conversation), "", "mallory", sim.clock.now(),
            (Begin("orders", "Orders"), send),
        )  # fmt: skip
        sim.feed(TOPIC_NAME, str(conversation), encode_command(command))
        sim.run()
        assert seen == []
        assert [value for value, _ in copied(sim)] == [encode_command(command)]


def test_headers_that_cannot_be_read_make_a_letter() -> None:
    with Simulation(web(), raise_failures=False) as sim:
        sim.feed(TOPIC_NAME, None, text(1))
        (record,) = visible(sim.broker, TOPIC_NAME)
        record._headers = [("\ud800", b"1")]
        sim.run()
        ((value, headers),) = copied(sim)
        assert value == text(1).encode()
        assert b"headers of the record cannot be read" in headers[letters.EXCEPTION_MESSAGE]


def test_a_record_that_is_too_large_for_one_letter_is_in_several() -> None:
    with Simulation(web(raises(ValueError("no"))), partitions=1, raise_failures=False) as sim:
        sim.feed(TOPIC_NAME, b"k" * 2_000, bytes(900_000))
        (record,) = visible(sim.broker, TOPIC_NAME)
        record._value = bytes(1_900_000) + b"end"
        sim.run()
        found = copied(sim)
        assert [headers[letters.ORIGINAL + PART] for _, headers in found] == [b"1/3", b"2/3", b"3/3"]
        assert [value for value, _ in found] == [b"k" * 2_000, bytes(1_000_000), bytes(900_000) + b"end"]


def test_a_record_without_a_key_that_is_no_copy_is_told_as_before() -> None:
    """The header alone decides nothing: a command has a key."""
    with Simulation(web()) as sim:
        partition = (service_topic("conv", "web", COMMANDS), 0, None, b"x", [(WHY, b"told")])
        sim.broker.append(sim.broker.placed(partition))
        sim.run()
        ((_, headers),) = copied(sim)
        assert headers[letters.EXCEPTION_MESSAGE].startswith(b"a command needs a value and a key")


def test_each_record_takes_effect_once_whatever_fails() -> None:
    for seed in range(6):
        service, _ = orders()
        faults = Faults(seed=seed, crash=0.05, abort=0.1, revoke=0.05, duplicate=0.1, reorder=0.1)
        customer: Turn = lambda record: NewDialog(placed(record), to_group=(record.key or b"").decode())  # noqa: E731
        with Simulation(web(customer, contract=NAMED), service, faults=faults, workers=2, raise_failures=False) as sim:
            for n in range(60):
                sim.feed(TOPIC_NAME, f"customer-{n % 4}", text(n))
                if n % 10 == 9:
                    sim.run()
                    sim.broker.fed["web", TOPIC_NAME][:] = [0, 0, 0]  # everything is read again
            sim.chance.active = False
            sim.advance(timedelta(minutes=5))
            for customer_number in range(4):
                state = sim.state("orders", f"customer-{customer_number}")
                assert state is not None
                assert sorted(state.value["taken"]) == [n for n in range(60) if n % 4 == customer_number]
            sim.check_invariants()


@pytest.mark.parametrize(("start", "expected"), [("earliest", [1, 2]), ("latest", [2])])
def test_the_first_start_begins_where_the_service_declares(start: str, expected: list[int]) -> None:
    service, seen = orders()
    with Simulation(service) as sim:
        sim.broker.create_topic(TOPIC_NAME, 3)
        sim.broker.fed["none", TOPIC_NAME] = [0, 0, 0]
        sim.feed(TOPIC_NAME, None, text(1))
        sim.deploy(web(start=start))
        sim.feed(TOPIC_NAME, None, text(2))
        sim.run()
        assert sorted(seen) == expected
        sim.deploy(web(start=start))
        sim.run()
        assert sorted(seen) == expected


def test_local_feeds_in_memory() -> None:
    service, seen = orders()
    with local(web(), service) as client:
        client.feed(TOPIC_NAME, "k", text(1))
        with pytest.raises(LocalError, match=f"no service reads from 'x'; there are: {TOPIC_NAME}"):
            client.feed("x", "k", "v")
        until(lambda: seen == [1], "the dialog began", 20)


# -- declarations ---------------------------------------------------------------------------------------------------


async def waiting(record: PlainRecord) -> None:
    """A function that waits."""


WRONG: dict[str, tuple[dict[str, Any], Any, str]] = {
    "start": ({"start": None}, placed, 'start="earliest"'),
    "contract": ({"contract": Contract("Orders", sent_by_initiator=[Placed])}, placed, "does not initiate"),
    "no contract": ({"contract": "Orders"}, placed, "contract"),
    "to": ({"to": "a b"}, placed, "service 'a b'"),
    "async": ({}, waiting, "write it as `def`"),
    "arguments": ({}, lambda: None, "must take"),
    "class": ({}, Placed, "is for a function"),
    "group": ({"contract": Contract("Far", sent_by_initiator=[Placed], group_named_by=["bank"])}, placed, "initiates"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_declaration_is_refused(kind: str) -> None:
    changed, function, why = WRONG[kind]
    service = Service("web", initiates=[ORDERS], ignores=[Shipped])
    given: dict[str, Any] = {"to": "orders", "contract": ORDERS, "start": "earliest"} | changed
    with pytest.raises(DeclarationError, match=why):
        service.from_topic(TOPIC_NAME, **given)(function)


@pytest.mark.parametrize("topic", ["", "a b", "__consumer_offsets", 7])
def test_no_feed_has_such_a_topic(topic: Any) -> None:
    with pytest.raises(DeclarationError, match="from_topic has names of topics"):
        Service("web", initiates=[ORDERS]).from_topic(topic, to="orders", contract=ORDERS, start="latest")(placed)


def test_a_topic_has_one_function_and_belongs_to_others() -> None:
    with pytest.raises(DeclarationError, match=r"has a function for records of shop\.orders already: placed"):
        web().from_topic(TOPIC_NAME, to="orders", contract=ORDERS, start="latest")(placed)
    service = Service("web", initiates=[ORDERS], ignores=[Shipped])
    service.from_topic(service_topic("conv", "orders", QUEUE), to="orders", contract=ORDERS, start="latest")(placed)
    with pytest.raises(DeclarationError, match=r"cannot read from conv\.orders\.queue"):
        Simulation(service)


def test_the_catalog_names_the_topics() -> None:
    assert web().declaration().entry(3)["reads"] == [TOPIC_NAME]
    assert "reads" not in orders()[0].declaration().entry(3)
