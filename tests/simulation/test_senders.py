"""Senders that the catalog does not name: nothing is done for them, and who was named a moment ago is no such sender."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest

from conversations.config import WorkerSettings
from conversations.errors import KafkaUnreachable
from conversations.memory.connection import MemoryConnection
from conversations.protocol import letters, rows
from conversations.protocol.envelope import Kind
from conversations.protocol.topics import COMMANDS, DEAD_LETTER, QUEUE
from conversations.testing import Simulation, bounds, reading
from conversations.worker.transmission import Transmission
from tests.bad_input.support.forging import Forged, stranger
from tests.bad_input.support.logs import Memory
from tests.bad_input.support.outcomes import order
from tests.bad_input.support.services import PARTITIONS, shop, web
from tests.bad_input.test_wire import known, receipts
from tests.simulation.test_bounds import counted
from tests.support.forms import python_form

SETTINGS = WorkerSettings(patience=timedelta(0), revocation=timedelta(0), deaths=1_000_000)


@pytest.fixture
def place() -> Iterator[Memory]:
    with Simulation(shop(), web(), partitions=PARTITIONS, raise_failures=False, settings=SETTINGS) as sim:
        yield Memory(sim)


def first_of(place: Memory, who: str, number: int) -> Forged:
    other = stranger(place.now(), Random(number))
    other.prefix = replace(other.prefix, from_service=who)
    return other.record(other.message())


def kinds_of_rows(place: Memory) -> set[bytes]:
    return {key[:1] for table in reading.state_of(place.sim.broker, "shop") for key in table}


@python_form
def test_invented_senders_leave_their_bytes_and_nothing_else(place: Memory) -> None:
    """No dialog, no tombstone, no envelope that waits for ever; the catalog is looked at once for all of a step."""
    healthy = known(place, 999)
    before, accepted = kinds_of_rows(place), place.sim.worker("shop").counts.accepted
    with counted(MemoryConnection.look_at_catalog) as looks:
        place.throw("shop", QUEUE, [first_of(place, f"nobody-{number}", number) for number in range(100)])
        place.throw("shop", QUEUE, [first_of(place, "nobody-1", number) for number in range(100, 200)])
        place.throw("web", COMMANDS, [order(healthy, 1)])
        place.sim.run()
    assert looks[0] <= 10
    assert [it.reason for found in place.letters("shop").values() for it in found] == [letters.SET_ASIDE] * 200
    reasons = {
        dict(letter.headers() or ())[letters.EXCEPTION_MESSAGE]
        for letter in place.read(place.topic("shop", DEAD_LETTER))
    }
    assert reasons == {b"the catalog names no such service: 'nobody-%d'" % number for number in range(100)}
    assert place.sim.worker("shop").counts.accepted == accepted
    assert kinds_of_rows(place) - before == {rows.LETTER}
    assert receipts(place, healthy) == [0, 1]
    with counted(Transmission.release) as released, counted(MemoryConnection.look_at_catalog) as looks:
        place.sim.advance(timedelta(hours=1))
    assert released[0] == looks[0] == 0
    bounds.check_at_rest(place.sim.worker("shop"))


def test_a_service_that_was_made_a_moment_ago_is_no_invented_sender(place: Memory) -> None:
    """Its name was asked for in vain just before, and no time has passed."""
    place.throw("shop", QUEUE, [first_of(place, "new", 1)])
    place.sim.run()
    assert [it.reason for found in place.letters("shop").values() for it in found] == [letters.SET_ASIDE]
    place.sim.broker.create_service("new", 1)
    place.throw("shop", QUEUE, [first_of(place, "new", 2)])
    place.sim.run()
    assert [e.kind for e in place.sent("new") if e.kind is Kind.MESSAGE] == [Kind.MESSAGE]
    assert len(place.letters("shop")) == 1


def test_what_is_refused_may_be_given_back_once_its_sender_is_there(place: Memory) -> None:
    """Nothing remembers the refusal: the same bytes begin the dialog."""
    record = first_of(place, "late", 1)
    place.throw("shop", QUEUE, [record])
    place.sim.run()
    place.sim.broker.create_service("late", 1)
    place.throw("shop", QUEUE, [record])
    place.sim.run()
    assert [e.kind for e in place.sent("late") if e.kind is Kind.MESSAGE] == [Kind.MESSAGE]


def test_while_the_catalog_cannot_be_read_nobody_is_refused(place: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be for good; what such a dialog says waits until the catalog is there."""

    def fails(_log: MemoryConnection) -> None:
        raise KafkaUnreachable("memory", "no broker answers")

    known(place, 999)
    place.sim.worker("shop").context.connection.partitions("new")
    with monkeypatch.context() as patched:
        patched.setattr(MemoryConnection, "look_at_catalog", fails)
        place.sim.broker.create_service("new", 1)
        place.throw("shop", QUEUE, [first_of(place, "new", 1)])
        place.sim.run()
    place.sim.advance(timedelta(minutes=2))
    assert place.letters("shop") == {}
    assert [e.kind for e in place.sent("new") if e.kind is Kind.MESSAGE] == [Kind.MESSAGE]
