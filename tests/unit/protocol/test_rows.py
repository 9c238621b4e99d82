"""Laws of state rows: the hand-written one is fastavro's, and what is written is read."""

import io
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conversations import schemas
from conversations.errors import UndecodableRecord
from conversations.protocol import rows
from conversations.protocol.effects import Failure
from conversations.protocol.endpoint import NEVER, Endpoint
from conversations.protocol.fences import Chain, Fence
from conversations.protocol.limits import TIMER_NAME
from conversations.protocol.partition_row import PartitionRow, decode_partition, encode_partition
from conversations.protocol.registry import Schema
from conversations.protocol.states import State

ids = st.binary(min_size=16, max_size=16)
texts = st.text(max_size=30)
longs = st.integers(-1, 1 << 62)
counts = st.integers(0, 1 << 40)
times = st.integers(0, NEVER - 1)
numbers = st.sets(counts, max_size=5)
no_timers: dict[str, int] = {}
named_timers = st.just(no_timers) | st.dictionaries(st.from_regex(TIMER_NAME, fullmatch=True), times, max_size=3)


@st.composite
def endpoints(draw: st.DrawFn) -> Endpoint:
    endpoint = Endpoint(
        draw(ids), draw(st.booleans()), contract=draw(texts), service="s", peer=draw(texts), key=draw(texts),
        peer_key=draw(texts), expires_at=draw(times | st.just(NEVER)),
    )  # fmt: skip
    endpoint.origin = draw(texts)
    endpoint.started_until = draw(times)
    endpoint.state = draw(st.sampled_from(State))
    endpoint.inbound.next, endpoint.next_out = draw(counts), draw(counts)
    endpoint.inbound.held, endpoint.inbound.missing = draw(numbers), draw(numbers)
    endpoint.acked, endpoint.told, endpoint.end_seq = draw(longs), draw(longs), draw(longs)
    endpoint.timer = draw(times | st.just(NEVER))
    endpoint.restore_timers(draw(named_timers))
    endpoint.asked = draw(st.integers(0, 3))
    endpoint.discarded, endpoint.dead_lettered = draw(counts), draw(counts)
    endpoint.handled, endpoint.stateful = draw(longs), draw(st.booleans())
    endpoint.resends, endpoint.fence, endpoint.renews = (
        draw(st.booleans()),
        draw(st.sampled_from(Fence)),
        draw(st.booleans()),
    )
    endpoint.chain = draw(st.none() | st.builds(Chain, st.integers(1, 3), ids, counts))
    code = draw(st.integers(-(1 << 31), (1 << 31) - 1).filter(bool))
    endpoint.error = draw(st.none() | st.builds(Failure, st.just(code), texts))
    return endpoint


def fields_of(endpoint: Endpoint) -> dict[str, Any]:
    """The row as the schema describes it, written down without the encoder."""
    error, chain = endpoint.error or Failure(0, ""), endpoint.chain or Chain(0, b"", 0)
    return {
        "wake": endpoint.wake().to_bytes(8, "big"), "contract": endpoint.contract, "peer": endpoint.peer, "key": endpoint.key, "peer_key": endpoint.peer_key,
        "origin": endpoint.origin, "expires_at": -1 if endpoint.expires_at == NEVER else endpoint.expires_at,
        "started_until": endpoint.started_until, "state": int(endpoint.state), "next_in": endpoint.inbound.next,
        "next_out": endpoint.next_out, "acked": endpoint.acked, "told": endpoint.told, "end_seq": endpoint.end_seq,
        "timer": -1 if endpoint.timer == NEVER else endpoint.timer, "asked": endpoint.asked,
        "held": len(endpoint.inbound.held), "discarded": endpoint.discarded,
        "dead_lettered": endpoint.dead_lettered, "code": error.code, "description": error.description,
        "missing": sorted(endpoint.inbound.missing), "handled": endpoint.handled, "stateful": endpoint.stateful,
        "resends": endpoint.resends, "fence": int(endpoint.fence), "renews": endpoint.renews,
        "generation": chain.generation, "first_conversation": chain.first, "first_number": chain.number,
        "timers": [{"name": name, "at": at} for name, at in sorted(endpoint.timers().items()) if name],
    }  # fmt: skip


@given(endpoints())
def test_the_hand_written_row_is_byte_for_byte_fastavros(endpoint: Endpoint) -> None:
    """Marker, fingerprint and every field, as any Avro library would write them."""
    source = schemas.load("endpoint", 3 if endpoint.named is None else 4)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(source), fields_of(endpoint))
    row = rows.encode_endpoint(endpoint, rows.encode_constant(endpoint))
    assert row == Schema(source).head + out.getvalue()


@given(endpoints())
def test_an_endpoint_comes_back_from_its_row(endpoint: Endpoint) -> None:
    """Everything but what is held, which has rows of its own."""
    name = rows.identity(endpoint.conversation, endpoint.initiator)
    not_restored = {"held": 0, "wake": 0}
    row = rows.encode_endpoint(endpoint, rows.encode_constant(endpoint))
    again, constant = rows.decode_endpoint(name, row, "s")
    assert constant == rows.encode_constant(endpoint)
    assert rows.wake_of(row) == again.next_deadline()
    assert rows.contract_of(row).decode() == endpoint.contract
    assert fields_of(again) | not_restored == fields_of(endpoint) | not_restored
    assert (again.conversation, again.initiator) == (endpoint.conversation, endpoint.initiator)
    assert not rows.is_tombstone(row)


def test_a_row_without_named_timers_has_the_bytes_of_the_releases_that_know_none() -> None:
    """Version 3, byte for byte. Only named timers need version 4, which an older release refuses to read."""
    endpoint = Endpoint(
        bytes(range(16)), True, contract="Loan", service="bank", peer="desk", key="customer-17", peer_key="customer-17",
        expires_at=1_763_000_000_000_000,
    )  # fmt: skip
    endpoint.may_start_until(1_762_000_000_000_000)
    endpoint.state, endpoint.next_out, endpoint.acked = State.CONVERSING, 3, 1
    golden = iter((Path(__file__).parents[2] / "golden" / "endpoint.hex").read_text(encoding="ascii").split())
    assert rows.encode_endpoint(endpoint, rows.encode_constant(endpoint)).hex() == next(golden)
    endpoint.set_timer(1_762_500_000_000_000)
    assert rows.encode_endpoint(endpoint, rows.encode_constant(endpoint)).hex() == (with_timer := next(golden))
    endpoint.set_timer(1_762_600_000_000_000, "reminder")
    endpoint.set_timer(1_762_400_000_000_000, "give-up")
    assert rows.encode_endpoint(endpoint, rows.encode_constant(endpoint)).hex() == next(golden)
    endpoint.set_timer(NEVER, "give-up")
    endpoint.set_timer(NEVER, "reminder")
    assert rows.encode_endpoint(endpoint, rows.encode_constant(endpoint)).hex() == with_timer


@pytest.mark.parametrize("end", ["01", "02", "0204", "0200", "ff01"])
def test_broken_named_timers_are_refused(end: str) -> None:
    """A count that the bytes cannot have, a name that is cut, and bytes behind the end."""
    *_, named = (Path(__file__).parents[2] / "golden" / "endpoint.hex").read_text(encoding="ascii").split()
    row = bytes.fromhex(named)
    before = row.index(bytes.fromhex("040e676976652d7570"))
    with pytest.raises(UndecodableRecord):
        rows.decode_endpoint(bytes(16) + b"\1", row[:before] + bytes.fromhex(end), "bank")


@settings(deadline=None)  # a machine may be busy
@given(endpoints())
def test_a_row_of_an_older_release_is_read_and_does_not_count(endpoint: Endpoint) -> None:
    source = schemas.load("endpoint", 1)
    out = io.BytesIO()
    names = [it["name"] for it in source["fields"]]
    known = {name: value for name, value in fields_of(endpoint).items() if name in names}
    fastavro.schemaless_writer(out, fastavro.parse_schema(source), known)
    row = Schema(source).head + out.getvalue()
    again, constant = rows.decode_endpoint(rows.identity(endpoint.conversation, endpoint.initiator), row, "s")
    again.finished()
    assert (again.handled, again.stateful, constant) == (-1, False, rows.encode_constant(endpoint))
    later = {
        "resends": False,
        "fence": 0,
        "renews": False,
        "generation": 0,
        "first_conversation": b"",
        "first_number": 0,
        "timers": [],
    }
    not_there = {"held": 0, "wake": 0, "handled": -1, "stateful": False} | later
    assert fields_of(again) | {"held": 0, "wake": 0} == known | not_there
    assert rows.contract_of(row).decode() == endpoint.contract


@given(
    st.builds(
        rows.Tombstone,
        texts,
        texts,
        times,
        longs,
        longs,
        counts,
        counts,
        st.booleans(),
        st.integers(-9999, 9999),
        st.frozensets(counts),
        counts,
        st.binary(max_size=16),
    )
)
def test_a_tombstone_comes_back_and_is_told_from_an_endpoint(tombstone: rows.Tombstone) -> None:
    """Both have keys that begin with E. It is encoded by hand, as fastavro does it."""
    row = rows.encode_tombstone(tombstone)
    assert rows.is_tombstone(row)
    assert rows.decode_tombstone(row) == tombstone
    fields = {name: getattr(tombstone, name) for name in rows.Tombstone.__dataclass_fields__}
    known = fields | {"forget_at": tombstone.forget_at.to_bytes(8, "big"), "missing": sorted(tombstone.missing)}
    assert row == Schema(schemas.load("tombstone", schemas.newest("tombstone"))).encode(known)


binaries = st.binary(max_size=30)


@given(
    st.builds(
        rows.GroupRow, st.integers(0, 1000), binaries, st.dictionaries(st.binary(min_size=17, max_size=17), st.none())
    )
)
def test_a_group_comes_back(group: rows.GroupRow) -> None:
    """With its members in order, the one that opened it first. It is encoded by hand, as fastavro does it."""
    row = rows.encode_group(group)
    assert rows.decode_group(row) == group
    known = {"version": group.version, "state": group.state, "members": list(group.members)}
    assert row == Schema(schemas.load("group", schemas.newest("group"))).encode(known)


@given(
    st.builds(
        PartitionRow,
        counts,
        counts,
        texts,
        texts,
        texts,
        times,
        st.booleans(),
        counts,
        st.integers(0, 99),
        st.integers(0, 99),
        st.integers(0, 99),
    )
)
def test_a_partition_comes_back(row: PartitionRow) -> None:
    """Positions, topic ids, queue time."""
    assert decode_partition(encode_partition(row)) == row


@given(ids, st.booleans())
def test_the_other_side_of_the_other_side_is_this_one(conversation: bytes, initiator: bool) -> None:
    """And the two differ only in the side."""
    own = rows.identity(conversation, initiator)
    assert rows.other_side(own) == rows.identity(conversation, not initiator)
    assert rows.other_side(rows.other_side(own)) == own


@given(ids, st.lists(st.integers(0, (1 << 64) - 1)))
def test_numbered_keys_sort_by_number(conversation: bytes, given_numbers: list[int]) -> None:
    """A scan returns held and delayed records in order."""
    own = rows.identity(conversation, True)
    keys = [rows.numbered(rows.HELD, own, number) for number in given_numbers]
    assert sorted(keys) == [rows.numbered(rows.HELD, own, number) for number in sorted(given_numbers)]


@pytest.mark.parametrize("row", [b"", b"\xc3\x01", rows.encode_group(rows.GroupRow())])
def test_another_row_is_not_an_endpoint(row: bytes) -> None:
    """Damage and mix-ups are found, not guessed at."""
    with pytest.raises(UndecodableRecord):
        rows.decode_endpoint(bytes(17), row, "s")
