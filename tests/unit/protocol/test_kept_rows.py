"""Laws of the rows of waiting records and of parks: the hand-written encoding is fastavro's, and nothing else is read."""

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversations import schemas
from conversations.errors import UndecodableRecord
from conversations.protocol.endpoint import NEVER
from conversations.protocol.park_row import ParkRow, decode_park, encode_park
from conversations.protocol.partition_row import PartitionRow, encode_partition
from conversations.protocol.registry import Schema
from conversations.protocol.waiting_row import WaitingRow, decode_waiting, encode_waiting, start_of

GOLDEN = Path(__file__).parents[2] / "golden"
texts, binaries = st.text(max_size=90), st.binary(max_size=200)
longs, ints = st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-(1 << 31), (1 << 31) - 1)
waiting = st.builds(WaitingRow, texts, longs, longs, st.booleans(), ints, binaries, binaries, binaries)
parks = st.builds(
    ParkRow, due=st.integers(0, NEVER), first=longs, next=longs, size=longs, since=longs, ticket=longs, attempts=ints,
    ended=st.booleans(), failure=texts, returns=ints, returned=texts, counted=ints, counted_size=longs, edited=texts,
    skipped=st.lists(longs, max_size=5),
)  # fmt: skip
LARGE = WaitingRow("conv.shop.queue", 1 << 40, 1_763_000_000_000_000, True, 3, b"k" * 100, b"h" * 300, b"v" * 70_000)
FULL = ParkRow(
    1_763_000_000_000_000, 7, 9, 1_000, 1_762_000_000_000_000, 3, 2, True, "ValueError: \u00e9", 1, "a-command", 4, 500, "another",
    [1, 2, 300],
)  # fmt: skip
EVERY = [
    (encode_waiting, decode_waiting, LARGE, "waiting"),
    (encode_waiting, decode_waiting, WaitingRow("", -1, 0, False, 0, b"", b"", b""), "waiting"),
    (encode_park, decode_park, FULL, "park"),
    (encode_park, decode_park, ParkRow(), "park"),
]
Case = tuple[Callable[[Any], bytes], Callable[[bytes], Any], Any, str]


def by_fastavro(name: str, fields: dict[str, Any], version: int = 0) -> bytes:
    return Schema(schemas.load(name, version or schemas.newest(name))).encode(fields)


def fields_of(park: ParkRow) -> dict[str, Any]:
    return asdict(park) | {"due": park.due.to_bytes(8, "big")}


@given(waiting)
def test_a_waiting_row_is_that_of_fastavro_and_is_read_as_it_was_written(row: WaitingRow) -> None:
    encoded = encode_waiting(row)
    assert encoded == by_fastavro("waiting", asdict(row))
    assert decode_waiting(encoded) == row
    assert start_of(encoded) == (row.topic, row.log_time, row.accepted)


@given(parks)
def test_a_park_row_is_that_of_fastavro_and_is_read_as_it_was_written(park: ParkRow) -> None:
    encoded = encode_park(park)
    assert encoded == by_fastavro("park", fields_of(park))
    assert decode_park(encoded) == park


def test_a_park_row_of_the_first_version_is_read() -> None:
    old = fields_of(FULL)
    assert decode_park(by_fastavro("park", {name: it for name, it in old.items() if name != "skipped"}, 1)) == ParkRow(
        **asdict(FULL) | {"skipped": []}
    )


@pytest.mark.parametrize(
    ("name", "row"), [("waiting", encode_waiting(replace(LARGE, value=b"value"))), ("park", encode_park(FULL))]
)
def test_the_bytes_of_a_row_do_not_change(name: str, row: bytes) -> None:
    """A row that a release has written is read by every later one."""
    assert row.hex() == (GOLDEN / f"{name}.hex").read_text(encoding="ascii").strip()


@pytest.mark.parametrize("case", EVERY)
def test_a_truncated_row_is_refused_and_so_is_a_byte_more(case: Case) -> None:
    encode, decode, row, _ = case
    encoded = encode(row)
    for size in {*range(min(len(encoded), 600)), len(encoded) - 1}:
        with pytest.raises(UndecodableRecord):
            decode(encoded[:size])
    with pytest.raises(UndecodableRecord):
        decode(encoded + b"\0")


@pytest.mark.parametrize(
    "fields",
    [{"attempts": 1 << 31}, {"attempts": -(1 << 31) - 1}, {"topic": b"\xff"}, {"accepted": 2}, {"key": -1}, {"value": 1 << 40}],
)  # fmt: skip
def test_a_waiting_row_that_breaks_a_rule_of_avro_is_refused(fields: dict[str, Any]) -> None:
    """No length is believed before it is compared with the bytes that are there."""
    with pytest.raises(UndecodableRecord):
        decode_waiting(forged(fields))


def forged(fields: dict[str, Any]) -> bytes:
    """A waiting row with fields that no encoder writes: a number as ``key`` or ``value`` stands for a length without its bytes."""
    number = encode_number
    key, value = fields.get("key", b""), fields.get("value", b"")
    topic = fields.get("topic", b"t")
    return b"".join((
        encode_waiting(LARGE)[:10], number(len(topic)), topic, number(1), number(1), bytes([fields.get("accepted", 1)]),
        number(fields.get("attempts", 0)), number(key) if isinstance(key, int) else b"\0", b"\0",
        number(value) if isinstance(value, int) else b"\0",
    ))  # fmt: skip


def encode_number(number: int) -> bytes:
    rest, out = number * 2 if number >= 0 else -number * 2 - 1, bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    return bytes([*out, rest])


def test_the_forged_row_is_good_without_the_forgery() -> None:
    assert decode_waiting(forged({})).topic == "t"


@pytest.mark.parametrize("decode", [decode_waiting, decode_park, start_of])
@pytest.mark.parametrize("row", [b"", b"\xc3\x01", encode_partition(PartitionRow())])
def test_another_row_is_refused(decode: Callable[[bytes], Any], row: bytes) -> None:
    with pytest.raises(UndecodableRecord):
        decode(row)
