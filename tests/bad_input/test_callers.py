"""Impossible requests of a caller raise at once, with Service Broker's error number, and nothing is written."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from conversations.client import Client
from conversations.config import Kafka, Limits
from conversations.errors import ConversationError
from conversations.local import LocalClient, MemoryCommands
from conversations.memory.broker import MemoryBroker
from conversations.memory.clock import SystemClock
from conversations.protocol.topics import COMMANDS, service_topic
from tests.bad_input.support.services import BRIEF, GOSSIP, TRADE, Order, Receipt, web

MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Call:
    """A bad call of a client, and the exception that it raises."""

    what: str
    call: Callable[[Client], object]
    exception: str
    code: int = 0


def _block(*bodies: Any, **named: Any) -> Callable[[Client], object]:
    def call(client: Client) -> None:
        with client.begin_dialog("shop", TRADE) as dialog:
            for body in bodies:
                dialog.send(body, **named)

    return call


def _ended(client: Client) -> None:
    with client.begin_dialog("shop", TRADE) as dialog:
        dialog.end()
        dialog.send(Order(n=1))


def _error(code: Any, description: Any) -> Callable[[Client], object]:
    def call(client: Client) -> None:
        with client.begin_dialog("shop", TRADE) as dialog:
            dialog.end_with_error(code, description)

    return call


def _unknown(client: Client) -> None:
    with client.begin_dialog("shpo", TRADE) as dialog:
        dialog.send(Order(n=1))


def _begin(to: Any = "shop", contract: Any = TRADE, **named: Any) -> Callable[[Client], object]:
    return lambda client: client.begin_dialog(to, contract, **named)


ROWS = [
    Call("a body of 100 MB", _block(b"x" * 100 * MEGABYTE), "BodyTooLarge", 8459),
    Call("a body just over the limit", _block(b"x" * (Limits().body_bytes + 1)), "BodyTooLarge", 8459),
    Call("three large bodies in one `with` block", _block(*[b"x" * 30_000_000] * 3), "BodyTooLarge", 8459),
    Call("10,001 messages in one `with` block", _block(*[Order(n=1)] * 10_001), "BodyTooLarge", 8459),
    Call("a body that is not valid", _block(Order.model_construct(n="seven")), "InvalidBody", 9615),  # type: ignore[arg-type]  # on purpose
    Call("a body whose class is not in the contract", _block(object()), "NotInContract", 8431),
    Call("a message that only the other side may send", _block(Receipt(n=1)), "WrongDirection", 8432),
    Call("a message type that does not exist", _block(Order(n=1), type="Nonsense"), "NotInContract", 8431),
    Call("a message type name that UTF-8 cannot encode", _block(Order(n=1), type="\ud800"), "NotInContract", 8431),
    Call("a message after the end", _ended, "DialogEnded", 8429),
    Call("an error with code 0", _error(0, "why"), "LocalError", 8419),
    Call("an error with a code of 33 bits", _error(1 << 32, "why"), "LocalError", 8419),
    Call("an error with the code True", _error(True, "why"), "LocalError", 8419),
    Call("an error without a description", _error(5, ""), "LocalError", 8422),
    Call("a name that is not a valid service name", _begin("no/such service"), "LocalError", 8412),
    Call("a service that the catalog does not name", _unknown, "UnknownService", 8490),
    Call("a service name of a megabyte", _begin("s" * MEGABYTE), "LocalError", 8412),
    Call("a contract that the service does not initiate", _begin(contract=type(TRADE)("Other", sent_by_any=[Order])), "UnknownContract", 8425),
    Call("a group name of a megabyte", _begin(group="g" * MEGABYTE), "LocalError", 8414),
    Call("a group name that UTF-8 cannot encode", _begin(group="\ud800"), "LocalError", 8414),
    Call("an empty group name", _begin(group=""), "LocalError", 8414),
    Call("a new dialog with an invalid id", _begin(id="no id"), "LocalError", 8426),
    Call("a lifetime of zero", _begin(lifetime=timedelta(0)), "LocalError", 8411),
    Call("a negative lifetime", _begin(lifetime=timedelta(-1)), "LocalError", 8411),
    Call("a lifetime that is longer than its contract's", _begin(contract=BRIEF, lifetime=timedelta(hours=2)), "LocalError", 8411),
    Call("an existing dialog with an invalid id", lambda client: client.dialog("no id"), "LocalError", 8426),
    Call("an existing dialog with a group name of a megabyte", lambda client: client.dialog(f"{client.new_id()}@{'g' * MEGABYTE}"), "LocalError", 8414),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.what)
def test_a_bad_call_raises_and_writes_nothing(row: Call) -> None:
    """The error has Service Broker's number, and the commands topic stays empty."""
    broker = MemoryBroker(SystemClock())
    broker.create_service("web", 1)
    broker.create_service("shop", 1)
    with (
        LocalClient(web(), Kafka("memory"), MemoryCommands(broker, "web")) as client,
        pytest.raises(ConversationError) as raised,
    ):
        row.call(client)
    assert (type(raised.value).__name__, raised.value.code) == (row.exception, row.code)
    assert len(str(raised.value)) < 1_000
    assert broker.topics[service_topic(broker.namespace, "web", COMMANDS)] == [[]]


def test_absurd_times_are_the_end_of_time() -> None:
    """A timer or a lifetime beyond the largest possible time is accepted, and still fits into a row."""
    broker = MemoryBroker(SystemClock())
    broker.create_service("web", 1)
    broker.create_service("shop", 1)
    with LocalClient(web(), Kafka("memory"), MemoryCommands(broker, "web")) as client:
        with client.begin_dialog("shop", GOSSIP, lifetime=timedelta.max) as dialog:
            dialog.send(Order(n=1))
            dialog.set_timer(timedelta(days=36_500_000))
        assert len(broker.topics[service_topic(broker.namespace, "web", COMMANDS)][0]) == 1


@pytest.mark.parametrize(
    "limits", [{"body_bytes": 0}, {"body_bytes": 128_000_001}, {"fragment_bytes": 1_000_001}, {"body_bytes": 64_000_000, "fragment_bytes": 5_000}, {"held_messages": 0}, {"waiting_bytes": -1}, {"cached_bytes": -1}]
)  # fmt: skip
def test_limits_that_topics_could_not_keep_are_refused(limits: dict[str, int]) -> None:
    """A body limit that is too large for a record of the queue, or for a row of the state, would stop the worker later. So the limits refuse it."""
    with pytest.raises(ValueError, match=next(iter(limits))):
        Limits(**limits)
