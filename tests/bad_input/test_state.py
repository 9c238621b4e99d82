"""State that cannot be loaded: the dialog fails, the partition is set aside, or the worker ends with an error that names what it needs."""

from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from pydantic import BaseModel

from conversations import DeclarationError, Dialog, PoisonPolicy, Service, WorkerSettings
from conversations.config import Periods
from conversations.ports import Out
from conversations.protocol import rows
from conversations.protocol.topics import COMMANDS, STATE
from conversations.protocol.waiting_row import WaitingRow, encode_waiting
from conversations.testing.reading import state_of
from conversations.testing.simulation import Simulation
from tests.bad_input.support.forging import Known, stranger
from tests.bad_input.support.logs import Memory
from tests.bad_input.support.outcomes import begin, order
from tests.bad_input.support.services import BLOB, LEDGER, PARTITIONS, PING, TRADE, Order, Receipt, shop, web
from tests.bad_input.test_wire import known, place, receipts

__all__ = ["place"]


class Stricter(BaseModel):
    orders: list[str] = []
    """In the old class, this was a list of numbers."""


def stricter(**fields: Any) -> Service[Stricter]:
    service = Service(
        "shop",
        accepts=[TRADE],
        state=Stricter,
        ignores=[t.name for t in (BLOB, PING, LEDGER)],
        poison=[PoisonPolicy.service_broker()],
        **fields,
    )

    @service.on(Order)
    def answer(body: Order, dialog: Dialog[Stricter]) -> None:
        dialog.group.state.orders.append(str(body.n))
        dialog.send(Receipt(n=body.n))

    return service


def test_a_group_whose_state_the_new_class_refuses_fails_alone_and_keeps_its_state(place: Memory) -> None:
    """The message is a dead letter after four attempts, and the peer gets error 500. New dialogs are handled."""
    old = known(place, 1)
    before = state_of(place.sim.broker, "shop")[0][rows.group_key("web", str(old.conversation))]
    place.sim.deploy(stricter())
    place.throw("web", COMMANDS, [order(old, 1)])
    fresh = known(place, 2)
    assert receipts(place, fresh) == [0]
    (letter,) = place.sim.dead_letters("shop")
    assert (letter.exception, letter.code, letter.attempts) == ("conversations.errors.StateUpgradeError", 500, 4)
    assert "orders.0" in letter.message
    assert place.states("web")[str(old.conversation)]["error"] == 500
    assert state_of(place.sim.broker, "shop")[0][rows.group_key("web", str(old.conversation))] == before


def test_a_message_whose_state_is_newer_waits_for_the_newer_release(place: Memory) -> None:
    """Old code does not touch the state that newer code wrote. It tries again without end, and the newer release handles the message."""
    service = stricter(state_version=2)
    service.upgrade_state(1)(lambda state: {"orders": [str(n) for n in state["orders"]]})
    place.sim.deploy(service)
    dialog = known(place, 1)
    place.sim.deploy(shop())
    place.throw("web", COMMANDS, [order(dialog, 1)])
    fresh = known(place, 2)
    place.sim.advance(timedelta(minutes=1))
    place.sim.run()
    assert receipts(place, fresh) == [0]
    assert receipts(place, dialog) == [0]
    assert [it.failure for it in place.sim.parked("shop")] == [
        "NewerState: service 'shop': stored state has version 2, but this code has version 1; a release with that version can handle the message"
    ]
    assert not place.sim.dead_letters("shop")
    service = stricter(state_version=2)
    service.upgrade_state(1)(lambda state: state)
    place.sim.deploy(service)
    place.sim.advance(timedelta(minutes=2))
    place.sim.run()
    assert receipts(place, dialog) == [0, 1]


def test_a_dialog_under_a_contract_that_is_not_declared_any_more_stops_the_worker(place: Memory) -> None:
    """The error names the contract. Once the contract is declared again, the dialog continues."""
    dialog = known(place, 1)
    place.sim.deploy(Service("shop"))
    with pytest.raises(DeclarationError, match="open dialogs under contract 'Trade'"):
        place.sim.run()
    place.sim.deploy(shop())
    place.throw("web", COMMANDS, [order(dialog, 1)])
    place.sim.run()
    assert receipts(place, dialog) == [0, 1]


# -- rows that cannot be understood ----------------------------------------------------------------------------------

GARBAGE = b"\xc3\x01 what is this?"
Row = Callable[[Known], tuple[bytes, bytes]]


def _own(dialog: Known) -> bytes:
    return rows.identity(dialog.conversation.bytes, initiator=False)


def _cut(kind: bytes, dialog: Known, place: Memory) -> bytes:
    return state_of(place.sim.broker, "shop")[0][kind + _own(dialog)][:-5]


DAMAGE: dict[str, Callable[[Known, Memory], tuple[bytes, bytes]]] = {
    "an endpoint row of unreadable bytes": lambda d, p: (rows.ENDPOINT + _own(d), GARBAGE),
    "an endpoint cut short": lambda d, p: (rows.ENDPOINT + _own(d), _cut(rows.ENDPOINT, d, p)),
    "an endpoint row with a key that is too short": lambda d, p: (rows.ENDPOINT + b"?", GARBAGE),
    "a group row of unreadable bytes": lambda d, p: (rows.group_key("web", str(d.conversation)), GARBAGE),
    "a waiting row of unreadable bytes": lambda d, p: (rows.WAITING + (1 << 40).to_bytes(8, "big"), GARBAGE),
    "a waiting row with an unreadable record": lambda d, p: (
        rows.WAITING + (1 << 40).to_bytes(8, "big"),
        encode_waiting(WaitingRow("conv.shop.queue", 1, 1, False, 0, d.key, b"", GARBAGE)),
    ),
    "a command row with a key that is too short": lambda d, p: (rows.COMMAND + b"?", bytes(16)),
    "a partition row of unreadable bytes": lambda d, p: (rows.PARTITION, GARBAGE),
    "an empty partition row": lambda d, p: (rows.PARTITION, b""),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_row_sets_its_partition_aside_and_the_others_go_on(
    place: Memory, damage: Callable[[Known, Memory], tuple[bytes, bytes]]
) -> None:
    """An event reports the partition, and the damaged state is not written. Once the row is repaired, everything continues."""
    dialog, other = known(place, 1), elsewhere(place)
    key, value = damage(dialog, place)
    name = place.topic("shop", STATE)
    before = state_of(place.sim.broker, "shop")[0].get(key)
    place.sim.crash("shop")
    place.sim.broker.append(Out(name, 0, key, value))
    damaged = len(place.sim.broker.topics[name][0])
    place.throw("web", COMMANDS, [order(dialog, 1)])
    place.throw("web", COMMANDS, [order(other, 1)])
    place.sim.run()
    assert receipts(place, other) == [0, 1]
    assert receipts(place, dialog) == [0]
    (event,) = place.events("PARTITION_SET_ASIDE")
    assert (event["service"], event["partition"]) == ("shop", 0)
    assert event["why"]
    written = [record for record in place.sim.broker.topics[name][0][damaged:] if record.visible]
    assert all(record.key() == rows.PARTITION for record in written), "only the row that counts the start is written"
    place.sim.crash("shop")
    place.sim.broker.append(Out(name, 0, key, before))
    place.sim.run()
    assert receipts(place, dialog) == [0, 1]


def elsewhere(place: Memory) -> Known:
    """Begin a dialog in the other partition."""
    found = stranger(place.now(), Random(99), 1)
    place.throw("web", COMMANDS, [begin(found)])
    place.sim.run()
    assert receipts(place, found) == [0]
    return found


def test_a_partition_whose_rows_stay_older_than_what_is_committed_is_set_aside() -> None:
    """The rows are read again for a while, because a leader that is cut off returns old rows. Then an event reports the partition. No message is lost."""
    settings = WorkerSettings(patience=timedelta(0), revocation=timedelta(0), periods=Periods(stale_after=100_000))
    with Simulation(shop(), web(), partitions=PARTITIONS, raise_failures=False, settings=settings) as sim:
        stays_old(Memory(sim), sim)


def stays_old(place: Memory, sim: Simulation) -> None:
    dialog = known(place, 1)
    name = place.topic("shop", STATE)
    old = state_of(sim.broker, "shop")[0][rows.PARTITION]
    place.throw("web", COMMANDS, [order(dialog, 1)])
    sim.run()
    newest = state_of(sim.broker, "shop")[0][rows.PARTITION]
    sim.crash("shop")
    sim.broker.append(Out(name, 0, rows.PARTITION, old))
    sim.run()
    (event,) = place.events("PARTITION_SET_ASIDE")
    assert "old ones were put back" in event["why"]
    sim.crash("shop")
    sim.run()
    assert len(place.events("PARTITION_SET_ASIDE")) == 2, "the old rows stay refused after the partition was set aside"
    sim.crash("shop")
    sim.broker.append(Out(name, 0, rows.PARTITION, newest))
    place.throw("web", COMMANDS, [order(dialog, 2)])
    sim.run()
    assert receipts(place, dialog) == [0, 1, 2]
