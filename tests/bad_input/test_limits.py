"""Limits that no row of the tables reaches by itself."""

from random import Random

import pytest

from conversations.protocol.codes import INVALID
from conversations.protocol.endpoint import Endpoint
from conversations.protocol.envelope import Kind
from conversations.protocol.limits import DESCRIPTION_LIMIT, GROUP_MEMBERS
from conversations.protocol.rows import GroupRow, decode_group, encode_group
from conversations.protocol.topics import QUEUE
from conversations.worker import groups, letters
from tests.bad_input.forging import stranger
from tests.bad_input.places import Memory
from tests.bad_input.test_wire import known, place, receipts

__all__ = ["place"]


def endpoint() -> Endpoint:
    made = Endpoint(
        bytes(16), True, contract="c", service="web", peer="shop", key="k", peer_key="k", expires_at=1 << 60
    )
    made.send()
    return made


def test_the_description_of_an_error_is_cut_before_it_is_kept() -> None:
    """Whoever sends a megabyte of it, or makes this side say it: it must fit the endpoint's row."""
    told = stranger(0, Random(1)).said(Kind.ERROR, code=-8462, description="ü" * 1_000_000)
    for broken in (endpoint(), endpoint()):
        broken.receive(told, 0, 1_000)
        assert broken.error is not None
        assert broken.error.description == "ü" * DESCRIPTION_LIMIT
    breaking = endpoint()
    said = breaking.fail(INVALID, "x" * 1_000_000)
    assert said is not None
    assert len(said.description) == DESCRIPTION_LIMIT


def test_of_a_record_only_so_much_is_kept(place: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The letter says how large the whole was; the rest is in the queue until its time is over."""
    monkeypatch.setattr(letters, "KEPT_BYTES", 3_000_000)
    (offset,) = place.throw("shop", QUEUE, [stranger(place.now(), Random(1)).raw(bytes(10_000_000))])
    place.sim.run()
    (letter,) = place.letters("shop")["queue", offset]
    assert letter.value == bytes(3_000_000)
    assert letter.headers[letters.SIZE] == b"10000000"
    assert letter.headers[letters.PART] == b"1/3"


def test_a_group_takes_only_so_many_dialogs_of_a_peer(place: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row remembers them all: the next is refused with -8462, in the others nothing changes."""
    monkeypatch.setattr(groups, "GROUP_MEMBERS", 2)
    first = known(place, 1)
    others = [stranger(place.now(), Random(number)) for number in (2, 3)]
    for other in others:
        other.prefix.reply_key = str(first.conversation)
        record = other.record(other.message(), key=first.key)
        place.throw("shop", QUEUE, [record])
    place.sim.run()
    assert [letter.code for letter in place.sim.dead_letters("shop")] == [-8462]
    assert receipts(place, first) == [0]


def test_a_full_group_fits_its_row() -> None:
    """With state as large as it may be."""
    row = encode_group(GroupRow(1, bytes(1_000_000), [bytes(17)] * GROUP_MEMBERS))
    assert len(row) < 1_500_000
    assert len(decode_group(row).members) == GROUP_MEMBERS
