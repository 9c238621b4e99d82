"""Limits that no row of the tables reaches."""

import tracemalloc
from random import Random

import pytest

from conversations import Contract, Dialog, Service
from conversations.errors import UndecodableRecord
from conversations.protocol import letters
from conversations.protocol.codes import INVALID
from conversations.protocol.command import decode_command
from conversations.protocol.endpoint import Endpoint
from conversations.protocol.envelope import Kind, decode
from conversations.protocol.limits import DESCRIPTION_LIMIT, GROUP_MEMBERS
from conversations.protocol.rows import GroupRow, decode_group, encode_group
from conversations.protocol.topics import QUEUE
from conversations.testing import Simulation
from conversations.worker import groups, outbound
from conversations.worker import letters as writing
from tests.bad_input import commands, wire
from tests.bad_input.support.forging import stranger
from tests.bad_input.support.logs import Memory
from tests.bad_input.support.services import Order
from tests.bad_input.test_wire import known, place, receipts

__all__ = ["place"]


def endpoint() -> Endpoint:
    made = Endpoint(
        bytes(16), True, contract="c", service="web", peer="shop", key="k", peer_key="k", expires_at=1 << 60
    )
    made.send()
    return made


def test_the_description_of_an_error_is_cut_before_it_is_kept() -> None:
    """A long description may come from the peer, or from an error of this side. It must fit into the endpoint's row."""
    told = stranger(0, Random(1)).said(Kind.ERROR, code=-8462, description="ü" * 1_000_000)
    for broken in (endpoint(), endpoint()):
        broken.receive(told, 0, 1_000)
        assert broken.error is not None
        assert broken.error.description == "ü" * DESCRIPTION_LIMIT
    breaking = endpoint()
    said = breaking.fail(INVALID, "x" * 1_000_000)
    assert said is not None
    assert len(said.description) == DESCRIPTION_LIMIT


BAD: list[wire.Wire | commands.Order] = [*wire.COUNTS, *commands.UNREADABLE]
LONG = [row for row in BAD if "million" in row.what or "0,000 " in row.what]


@pytest.mark.parametrize("row", LONG, ids=lambda row: row.what)
def test_nothing_is_built_of_a_list_before_its_length_is_known_to_be_allowed(row: wire.Wire | commands.Order) -> None:
    """To build Python objects from a megabyte of one-byte items would take seconds and a hundred megabytes."""
    value = row.forge(stranger(0, Random(1))).value
    assert value is not None
    assert len(value) > 1_000_000
    decoded = decode if isinstance(row, wire.Wire) else decode_command
    tracemalloc.start()
    try:
        with pytest.raises(UndecodableRecord, match="items"):
            decoded(value)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_what_a_handler_begins_elsewhere_is_as_many_commands_as_it_takes(
    place: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands are in one transaction, one after the other. The dialog gets all of its messages, in their order."""
    monkeypatch.setattr(outbound, "OPERATIONS", 4)
    contract = Contract("Elsewhere", sent_by_initiator=[Order])
    seen: list[int] = []
    other = Service("other", accepts=[contract])
    asked = Service("asked", accepts=[contract], initiates=[contract])

    @other.on(Order)
    def take(body: Order, _dialog: Dialog) -> None:
        seen.append(body.n)

    @asked.on(Order)
    def begin(_body: Order, dialog: Dialog) -> None:
        begun = dialog.group.begin_dialog("other", contract, related=False)
        for number in range(10):
            begun.send(Order(n=number))

    del take, begin
    with Simulation(other, asked, partitions=3) as sim:
        peer = sim.peer("web").begin_dialog("asked", contract)
        peer.send(Order(n=1))
        sim.run()
        assert sim.dead_letters("asked") == []
    assert seen == list(range(10))


def test_of_a_record_only_so_much_is_kept(place: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The letter has the size of the whole record. The rest of the bytes stays in the queue for its retention time."""
    monkeypatch.setattr(writing, "KEPT_BYTES", 3_000_000)
    (offset,) = place.throw("shop", QUEUE, [stranger(place.now(), Random(1)).raw(bytes(10_000_000))])
    place.sim.run()
    (letter,) = place.letters("shop")["queue", offset]
    assert letter.value == bytes(3_000_000)
    assert letter.headers[letters.SIZE] == b"10000000"
    assert letter.headers[letters.PART] == b"1/3"


def test_a_group_takes_only_so_many_dialogs_of_a_peer(place: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row names all dialogs of a group. The next dialog is refused with -8462, and the other dialogs do not change."""
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
    """The row of a full group with the largest possible state fits into a record."""
    members = dict.fromkeys(number.to_bytes(17, "big") for number in range(GROUP_MEMBERS))
    row = encode_group(GroupRow(1, bytes(1_000_000), members))
    assert len(row) < 1_500_000
    assert len(decode_group(row).members) == GROUP_MEMBERS
