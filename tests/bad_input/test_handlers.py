"""Handlers with impossible results or requests: their message fails, or the request raises at once. Other dialogs are not affected."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from conversations import Dialog, PoisonPolicy, Service
from conversations.config import WorkerSettings
from conversations.protocol import letters
from conversations.protocol.topics import DEAD_LETTER
from conversations.testing import Simulation
from conversations.testing.reading import visible
from tests.bad_input.support.services import BLOB, GOSSIP, LEDGER, PING, TRADE, Order, Receipt


class Big(BaseModel):
    pad: str = ""


Handler = Callable[[Order, Dialog[Big]], object]
BLOB_LIMIT = WorkerSettings().limits.body_bytes


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class Fatal(Exception):
    def __str__(self) -> str:
        raise SystemExit("no words")

    __repr__ = __str__


async def _promise() -> None:
    await asyncio.sleep(0)


@dataclass(frozen=True)
class Junk:
    """A handler with a mistake."""

    what: str
    handler: Handler
    exception: str
    """Name of the exception in the dead letter; "" if the message is handled."""


def _send(body: object, **named: Any) -> Handler:
    return lambda order, dialog: dialog.send(body, **named)


def _raise(failure: BaseException) -> Handler:
    def handler(order: Order, dialog: Dialog[Big]) -> None:
        raise failure

    return handler


def _state(make: Callable[[Dialog[Big]], None]) -> Handler:
    return lambda order, dialog: make(dialog)


def _grow(dialog: Dialog[Big]) -> None:
    dialog.group.state.pad = "x" * 1_200_000


def _other_class(dialog: Dialog[Big]) -> None:
    dialog.group.state = Order(n=1)  # type: ignore[assignment]  # on purpose


def _no_json(dialog: Dialog[Big]) -> None:
    dialog.group.state.pad = object()  # type: ignore[assignment]  # on purpose


def _generator(order: Order, dialog: Dialog[Big]) -> Any:
    dialog.send(Receipt(n=order.n))
    yield


async def _async_generator(order: Order, dialog: Dialog[Big]) -> Any:
    dialog.send(Receipt(n=order.n))
    yield


async def _returns_a_promise(order: Order, dialog: Dialog[Big]) -> Any:
    return _promise()


ROWS = [
    Junk("returns a value", lambda order, dialog: 42, ""),
    Junk("returns a body instead of sending it", lambda order, dialog: Receipt(n=order.n), ""),
    Junk("returns a coroutine that is never awaited", lambda order, dialog: _promise(), "builtins.TypeError"),
    Junk("is `async def` and returns another coroutine", _returns_a_promise, "builtins.TypeError"),
    Junk("is a generator", _generator, "builtins.TypeError"),
    Junk("is an asynchronous generator", _async_generator, "builtins.TypeError"),
    Junk("sends an object that is not a body of the contract", _send(object()), "conversations.errors.NotInContract"),
    Junk("sends a message that only the other side may send", _send(Order(n=1)), "conversations.errors.WrongDirection"),
    Junk("sends a body that is not valid", _send(Receipt.model_construct(n="x")  # type: ignore[arg-type]  # on purpose
), "conversations.errors.InvalidBody"),
    Junk("sends a dict in place of the body's class", _send({"n": 1}, type="Receipt"), "conversations.errors.InvalidBody"),
    Junk("raises an exception whose `__str__` fails", _raise(Speechless()), f"{__name__}.Speechless"),
    Junk("raises an exception whose `__str__` raises SystemExit", _raise(Fatal()), f"{__name__}.Fatal"),
    Junk("raises an exception with a text that UTF-8 cannot encode", _raise(ValueError("\ud800")), "builtins.ValueError"),
    Junk("raises an exception with a text of a megabyte", _raise(ValueError("x" * 1_000_000)), "builtins.ValueError"),
    Junk("raises SystemExit", _raise(SystemExit(1)), "builtins.SystemExit"),
    Junk("raises KeyboardInterrupt", _raise(KeyboardInterrupt()), "builtins.KeyboardInterrupt"),
    Junk("raises StopIteration", _raise(StopIteration()), "builtins.StopIteration"),
    Junk("makes the state of its group larger than the limit", _state(_grow), "builtins.ValueError"),
    Junk("replaces the state of its group by an object of another class", _state(_other_class), "builtins.TypeError"),
    Junk("puts an object into the state that JSON cannot represent", _state(_no_json), "pydantic_core._pydantic_core.PydanticSerializationError"),
    Junk(
        "begins a dialog with an invalid service name",
        lambda order, dialog: dialog.group.begin_dialog("no/such\ud800", GOSSIP),
        "conversations.errors.LocalError",
    ),
    Junk(
        "sets a timer that is due after the end of the lifetime",
        lambda order, dialog: dialog.set_timer(timedelta.max),
        "conversations.errors.LocalError",
    ),
    Junk(
        "begins a dialog with the longest possible lifetime",
        lambda order, dialog: dialog.group.begin_dialog("shop", GOSSIP, lifetime=timedelta.max).send(order),
        "",
    ),
    Junk("ends with an error text that UTF-8 cannot encode", lambda order, dialog: dialog.end_with_error(7, "\ud800"), ""),
    Junk("ends with an error text of a megabyte", lambda order, dialog: dialog.end_with_error(7, "x" * 1_000_000), ""),
    Junk(
        "sends a body that is too large",
        lambda order, dialog: dialog.group.begin_dialog("shop", TRADE).send(b"x" * (BLOB_LIMIT + 1), type="Blob"),
        "conversations.errors.BodyTooLarge",
    ),
]  # fmt: skip


def clumsy(handler: Handler) -> Service[Big]:
    """Return a service that calls ``handler`` for order 13, and answers all other orders correctly."""
    service = Service(
        "shop",
        accepts=[TRADE],
        initiates=[GOSSIP, TRADE],
        state=Big,
        ignores=[*(t.name for t in (BLOB, PING, LEDGER)), "Receipt"],
        poison=[PoisonPolicy.service_broker()],
    )
    service.on_timer()(lambda dialog: None)

    def order(body: Order, dialog: Dialog[Big]) -> Any:
        return handler(body, dialog) if body.n == 13 else dialog.send(Receipt(n=body.n))

    async def order_async(body: Order, dialog: Dialog[Big]) -> Any:
        if body.n == 13:
            return await handler(body, dialog)  # type: ignore[misc]  # this one is asynchronous
        dialog.send(Receipt(n=body.n))
        return None

    chosen = order_async if asyncio.iscoroutinefunction(handler) else order
    service.on("Order", contract=TRADE)(chosen)
    service.on("Order", contract=GOSSIP)(lambda body, dialog: None)
    return service


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.what)
def test_a_clumsy_handler_harms_its_own_dialog_at_most(row: Junk) -> None:
    """The handler fails four times. Then the message is a dead letter, and the peer gets error 500. Other dialogs go on."""
    with Simulation(clumsy(row.handler), partitions=1, raise_failures=False) as sim:
        web = sim.peer("web")
        healthy, harmed = web.begin_dialog("shop", TRADE), web.begin_dialog("shop", TRADE)
        healthy.send(Order(n=1))
        harmed.send(Order(n=13))
        healthy.send(Order(n=2))
        sim.run()
        sim.crash("shop")
        healthy.send(Order(n=3))
        sim.advance(timedelta(minutes=10))
        assert healthy.received() == [Receipt(n=1), Receipt(n=2), Receipt(n=3)]
        kept = [letter for letter in sim.dead_letters("shop") if letter.reason == "handler-failed"]
        assert [letter.exception for letter in kept] == ([row.exception] if row.exception else [])
        assert [letter.attempts for letter in kept] == ([4] if row.exception else [])
        told = harmed.error and harmed.error.code
        assert told == (500 if row.exception else 7 if "ends with" in row.what else None)
        assert sim.dead_letters("shop") == kept or "longest possible lifetime" in row.what
        for record in visible(sim.broker, f"{sim.broker.namespace}.shop.{DEAD_LETTER}"):
            assert sum(len(content) for _, content in record.headers() or ()) < 4 * letters.STACK_LIMIT
        assert sim.worker("shop").counts.handled >= 1


def test_a_body_over_the_limit_raises_in_the_handler() -> None:
    """The error has the number 8459, and the handler may catch it."""
    codes: list[int] = []

    def send_large(order: Order, dialog: Dialog[Big]) -> None:
        try:
            dialog.group.begin_dialog("shop", TRADE, wait_for_service=True).send(b"x" * (BLOB_LIMIT + 1), type="Blob")
        except Exception as error:
            codes.append(getattr(error, "code", 0))
            raise

    service = Service(
        "both",
        accepts=[TRADE],
        initiates=[TRADE],
        state=Big,
        ignores=["Blob", "Ping", "Ledger", "Receipt"],
        poison=[PoisonPolicy.service_broker()],
    )
    service.on(Order)(send_large)
    with Simulation(service, partitions=1, raise_failures=False) as sim:
        dialog = sim.peer("web").begin_dialog("both", TRADE)
        dialog.send(Order(n=1))
        sim.run()
        assert codes == [8459] * 4
        assert dialog.error
        assert dialog.error.code == 500
