"""Each bad record of a queue has the outcome in the table, and nothing else is affected."""

from collections.abc import Iterator
from datetime import timedelta
from random import Random

import pytest

from conversations.ports import Headers
from conversations.protocol.topics import COMMANDS, QUEUE
from conversations.testing import Simulation
from tests.bad_input import wire
from tests.bad_input.support.forging import Known, stranger
from tests.bad_input.support.logs import Memory
from tests.bad_input.support.outcomes import Thrown, begin, order, problems
from tests.bad_input.support.services import PARTITIONS, shop, web
from tests.bad_input.wire import Wire


@pytest.fixture
def place() -> Iterator[Memory]:
    with Simulation(shop(), web(), partitions=PARTITIONS, raise_failures=False) as sim:
        yield Memory(sim)


def known(place: Memory, seed: int, established: bool = True) -> Known:
    """Return a dialog in which order 0 was answered, or (``established=False``) one that no service knows."""
    found = stranger(place.now(), Random(seed))
    if established:
        place.throw("web", COMMANDS, [begin(found)])
        place.sim.run()
        genuine = next(e for e in place.sent("shop") if e.prefix.conversation_id == found.conversation.bytes)
        found.prefix, found.next = genuine.prefix, 1
        assert receipts(place, found) == [0]
    return found


def receipts(place: Memory, dialog: Known) -> list[int]:
    state = place.states("web").get(str(dialog.conversation), {})
    assert "error" not in state
    numbers: list[int] = state.get("receipts", [])
    return numbers


@pytest.mark.parametrize("row", wire.ROWS, ids=lambda row: row.what)
def test_a_bad_record_has_its_outcome_and_harms_nobody(place: Memory, row: Wire) -> None:
    """The record is accounted for by its offset; a healthy dialog of the partition goes on; the services come to rest."""
    healthy = known(place, 1)
    target = known(place, 2, row.established)
    record = row.forge(target)
    place.throw("web", COMMANDS, [order(healthy, 1)])
    place.sim.run()
    (offset,) = place.throw("shop", QUEUE, [record])
    place.throw("web", COMMANDS, [order(healthy, 2)])
    place.sim.run()
    assert problems(place, [Thrown(row, target, record, offset)]) == []
    if row.established and row.goes_on:
        place.throw("web", COMMANDS, [order(target, 1)])
        place.sim.run()
        assert receipts(place, target) == [0, 1]
    place.sim.advance(timedelta(minutes=30))
    assert receipts(place, healthy) == [0, 1, 2]
    before = counts(place)
    place.sim.crash("shop")
    place.sim.crash("web")
    place.sim.advance(timedelta(minutes=30))
    assert counts(place) == before, "the services still send records"
    assert problems(place, [Thrown(row, target, record, offset)]) == []


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("dialog", b"of an earlier release")],
        [("dialog", None)],
        [("\udcff\udcfe", b"x")],
        [("many", b"y")] * 100_000,
    ],
    ids=["none", "of an earlier release", "without a value", "a name that is not UTF-8", "100,000"],
)
def test_headers_that_no_receiver_reads_change_nothing(place: Memory, headers: Headers) -> None:
    target = known(place, 1)
    place.throw("shop", QUEUE, [target.record(target.message(), headers=headers)])
    place.sim.run()
    assert receipts(place, target) == [0, 7]
    assert place.events("SET_ASIDE") == []


def counts(place: Memory) -> dict[str, int]:
    return {name: len(place.sent(name)) for name in ("web", "shop")}
