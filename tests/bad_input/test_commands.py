"""Each bad command is refused with its code, and its bytes are kept as a dead letter. Nothing else is affected."""

from dataclasses import replace
from datetime import timedelta

import pytest

from conversations.ports import Headers
from conversations.protocol.topics import COMMANDS
from conversations.testing.reading import endpoints
from tests.bad_input import commands
from tests.bad_input.commands import Order
from tests.bad_input.support.forging import kind_for
from tests.bad_input.support.logs import Memory
from tests.bad_input.support.outcomes import order
from tests.bad_input.test_wire import counts, known, place, receipts

__all__ = ["place"]


@pytest.mark.parametrize("row", commands.ROWS, ids=lambda row: row.what)
def test_a_bad_command_has_its_outcome_and_harms_nobody(place: Memory, row: Order) -> None:
    """The command is refused as a whole. Its dialog goes on, and so does a healthy dialog of the partition."""
    healthy = known(place, 1)
    target = known(place, 2, row.established)
    record = row.forge(target)
    kind = kind_for(record)
    (offset,) = place.throw("web", kind, [record])
    place.throw("web", COMMANDS, [order(healthy, 1)])
    place.sim.run()
    check(place, row, record.value, (kind, offset))
    if row.established and row.reason:
        place.throw("web", COMMANDS, [order(target, 1)])
        place.sim.run()
        assert receipts(place, target) == [0, 1]
    place.sim.crash("web")
    place.sim.advance(timedelta(minutes=30))
    assert receipts(place, healthy) == [0, 1]
    before = counts(place)
    place.sim.advance(timedelta(minutes=30))
    assert counts(place) == before
    check(place, row, record.value, (kind, offset))
    if row.reason and not row.established:
        assert target.conversation.bytes not in {own[:16] for own in endpoints(place.sim.broker, "web")}


def check(place: Memory, row: Order, value: bytes | None, source: tuple[str, int]) -> None:
    kind, offset = source
    kept = place.letters("web").get(source, [])
    assert [(letter.reason, letter.code) for letter in kept] == ([(row.reason, row.code)] if row.reason else [])
    assert all(letter.value == value or (not value and not letter.value) for letter in kept)
    if row.event:
        (event,) = place.events(row.event)
        assert (event["service"], event["offset"], event["topic"]) == ("web", offset, place.topic("web", kind))


@pytest.mark.parametrize(
    "headers", [None, [("\udcff\udcfe", b"x")], [("large", bytes(3_000_000))], [("many", b"x")] * 5_000],
    ids=["none", "unreadable", "large", "many"],
)  # fmt: skip
def test_a_command_in_the_wrong_partition_is_forwarded_and_takes_effect_once(
    place: Memory, headers: Headers | None
) -> None:
    """A command in a wrong partition is still carried out, whatever headers it has; a command needs no headers."""
    target = known(place, 3)
    record = order(target, 1)
    (offset,) = place.throw("web", COMMANDS, [replace(record, partition=1, headers=headers)])
    place.sim.run()
    assert offset == 0
    assert receipts(place, target) == [0, 1]
    assert place.letters("web") == {}
