"""The decoders of bytes from outside, each with a check of its promise: to decode the bytes correctly, or to refuse them.

``python -m tests.bad_input.fuzzing 20000000`` fuzzes without pytest. ``FUZZ_INPUTS`` and ``FUZZ_SEED`` are for the tests (``test_fuzz``).
"""

import resource
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from time import monotonic
from typing import TypeVar

from conversations.bodies import BodyCodec, codec_of
from conversations.errors import InvalidBody, UndecodableRecord
from conversations.protocol import rows
from conversations.protocol.codes import NOT_CONVERSING
from conversations.protocol.command import (
    Begin,
    Cleanup,
    Command,
    End,
    EndWithError,
    Resend,
    Send,
    SetTimer,
    Tick,
    decode_command,
    encode_command,
)
from conversations.protocol.contract import MessageType
from conversations.protocol.endpoint import Endpoint
from conversations.protocol.envelope import (
    decode,
    decode_tail,
    encode,
    encode_prefix,
)
from conversations.protocol.envelope_avro import decode_avro
from conversations.protocol.park_row import ParkRow, decode_park, encode_park
from conversations.protocol.partition_row import PartitionRow, decode_partition, encode_partition
from conversations.protocol.registry import HEAD_SIZE
from conversations.protocol.waiting_row import WaitingRow, decode_waiting, encode_waiting
from conversations.testing.said import said
from tests.bad_input.mutations import damaged
from tests.bad_input.support.services import LEDGER, Order
from tests.golden.records import golden

T = TypeVar("T")
Check = Callable[[bytes], bool]
"""Decodes bytes and checks the result; returns True if the bytes were accepted. Every exception is a broken promise."""

NAME = bytes(range(16)) + b"\1"


@dataclass
class Target:
    """One decoder."""

    name: str
    seeds: Sequence[bytes]
    check: Check
    keep: int = HEAD_SIZE
    """Number of first bytes that are rarely damaged. If they are damaged, the decoder refuses the record and does not read the rest."""
    accepted: int = field(default=0, init=False)
    tried: int = field(default=0, init=False)

    def run(self, random: Random, count: int) -> None:
        """Try this many inputs."""
        for _ in range(count):
            value = damaged(random, self.seeds, self.keep)
            try:
                self.accepted += self.check(value)
            except BaseException as failure:
                failure.add_note(f"{self.name}: {value.hex()}")
                raise
        self.tried += count


def _accepted(decode_value: Callable[[bytes], T], value: bytes) -> T | None:
    """Return the decoded value; None if the decoder refuses the bytes with ``UndecodableRecord``."""
    try:
        return decode_value(value)
    except UndecodableRecord:
        return None


def _round_trip(decode_value: Callable[[bytes], object], encode_value: Callable[..., bytes]) -> Check:
    """Return a check that an accepted value can be encoded, and that decoding it again gives an equal value."""

    def check(value: bytes) -> bool:
        found = _accepted(decode_value, value)
        if found is None:
            return False
        written = encode_value(found)
        assert written == value or decode_value(written) == found
        return True

    return check


# -- envelopes -----------------------------------------------------------------------------------------------------

_GOLDEN = [(envelope, bytes.fromhex(path.read_text(encoding="ascii"))) for envelope, path in golden().values()]
ENVELOPES = [value for _, value in _GOLDEN if len(value) < 2_000]
_PREFIX = _GOLDEN[0][0].prefix
_PREFIXED = encode_prefix(_PREFIX)


def _envelope(value: bytes) -> bool:
    """Check that both decoders agree, and that an accepted envelope is equal after it was encoded and decoded again."""
    found = _accepted(decode, value)
    assert found == _accepted(decode_avro, value)
    if found is None:
        return False
    written = encode(found)
    assert written == value or decode_avro(written) == found
    assert said(value) == (found.prefix.conversation_id, found.prefix.from_initiator, found.kind, found.seq)
    return True


def _tail(value: bytes) -> bool:
    """Check that the decoder for dialogs with a known prefix agrees with the decoder of fastavro."""
    value = _PREFIXED + value
    found = _accepted(lambda record: decode_tail(_PREFIX, record, len(_PREFIXED)), value)
    assert found == _accepted(decode_avro, value)
    return found is not None


# -- commands --------------------------------------------------------------------------------------------------------

COMMANDS = [
    encode_command(Command(b"c" * 16, b"d" * 16, side, "key", "once", "web", 1_763_000_000_000_000, operations))
    for side, operations in [
        (True, (Begin("shop", "Trade", -1, "key"), Send("Order", "application/json", b'{"n": 1}'), End())),
        (False, (EndWithError(7, "why"),)),
        (True, (SetTimer(1_000_000), Cleanup(), Tick())),
        (True, (Resend(),)),
    ]
]


# -- rows ------------------------------------------------------------------------------------------------------------


def _endpoints() -> list[bytes]:
    found = []
    for ended in (False, True):
        endpoint = Endpoint(
            NAME[:16], initiator=True, contract="Trade", service="web", peer="shop", key="key", peer_key="theirs",
            expires_at=1_763_000_000_000_000,
        )  # fmt: skip
        endpoint.send()
        if ended:
            endpoint.inbound.jump(5, 100)
            endpoint.fail(NOT_CONVERSING)
        found.append(rows.encode_endpoint(endpoint, rows.encode_constant(endpoint)))
    return found


def _endpoint(value: bytes) -> bool:
    try:
        endpoint, constant = rows.decode_endpoint(NAME, value, "web")
    except UndecodableRecord:
        return False
    written = rows.encode_endpoint(endpoint, constant)
    again, _ = rows.decode_endpoint(NAME, written, "web")
    assert rows.encode_endpoint(again, rows.encode_constant(again)) == rows.encode_endpoint(
        endpoint, rows.encode_constant(endpoint)
    )
    return True


ROWS = [
    Target("endpoint rows", _endpoints(), _endpoint, HEAD_SIZE + 8),
    Target(
        "tombstones",
        [rows.encode_tombstone(rows.Tombstone("key", "web", 1 << 50, 9, 8, 7, 6, True, -8462, {1, 2, 300}))],
        _round_trip(rows.decode_tombstone, rows.encode_tombstone),
    ),
    Target(
        "group rows",
        [rows.encode_group(rows.GroupRow(3, b'{"a": 1}', dict.fromkeys([NAME, NAME[::-1]])))],
        _round_trip(rows.decode_group, rows.encode_group),
    ),
    Target(
        "waiting rows",
        [encode_waiting(WaitingRow("conv.shop.queue", 9, 1 << 50, True, 2, b"key", b"h" * 19, b"value"))],
        _round_trip(decode_waiting, encode_waiting),
    ),
    Target(
        "park rows",
        [encode_park(ParkRow(1 << 50, 1, 2, 3, 1 << 49, 4, 5, True, "why", 6, "c", 7, 8, "e", [1, 300]))],
        _round_trip(decode_park, encode_park),
    ),
    Target(
        "partition rows",
        [encode_partition(PartitionRow(1, 2, "a", "b", "c", 1 << 50))],
        _round_trip(decode_partition, encode_partition),
    ),
]


# -- bodies ------------------------------------------------------------------------------------------------------------


def _body(codec: BodyCodec) -> Check:
    def check(value: bytes) -> bool:
        try:
            found = codec.decode(value)
        except InvalidBody:
            return False
        assert repr(codec.decode(codec.encode(found))) == repr(found)  # repr, because a NaN is not equal to itself
        return True

    return check


_EVERYTHING = MessageType(
    "Everything",
    {
        "type": "record",
        "name": "Everything",
        "fields": [
            {"name": "map", "type": {"type": "map", "values": ["null", "long", "Everything"]}},
            {"name": "array", "type": {"type": "array", "items": {"type": "enum", "name": "E", "symbols": ["A", "B"]}}},
            {"name": "fixed", "type": {"type": "fixed", "name": "F", "size": 3}},
            {"name": "double", "type": "double"},
            {"name": "one", "type": ["boolean", "long", "bytes", "string"]},
        ],
    },
)
BODIES = [
    Target("JSON bodies", [b'{"n": 7, "note": "x"}', b'{"n": -1}', b'{"note": "\\ud83d\\ude00", "n": 1e3}'],
           _body(codec_of(MessageType("Order", Order))), 0),
    Target("recursive Avro bodies", [b"\2t\0\2\2u\0\0", b"\0\2\0\0"], _body(codec_of(LEDGER)), 0),
    Target("Avro bodies", [
        codec_of(_EVERYTHING).encode({"map": {"a": None, "b": 7}, "array": ["A", "B"], "fixed": b"abc", "double": 1.5, "one": 7}),
        codec_of(_EVERYTHING).encode({"map": {}, "array": [], "fixed": b"abc", "double": 0.0, "one": "text"}),
    ], _body(codec_of(_EVERYTHING)), 0),
]  # fmt: skip

TARGETS = [
    Target("envelopes", ENVELOPES, _envelope),
    Target("tails of envelopes", [v[len(encode_prefix(e.prefix)) :] for e, v in _GOLDEN if len(v) < 2_000], _tail, 0),
    Target("commands", COMMANDS, _round_trip(decode_command, encode_command)),
    *ROWS,
    *BODIES,
]


def peak_memory() -> int:
    """Return the peak memory of this process in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(inputs: int, seed: int) -> None:
    """Fuzz every decoder in turn, in rounds, and print the counts."""
    random, began, before = Random(seed), monotonic(), peak_memory()
    rounds = max(1, inputs // (len(TARGETS) * 10_000))
    for _ in range(rounds):
        for target in TARGETS:
            target.run(random, inputs // (len(TARGETS) * rounds))
    for target in TARGETS:
        sys.stdout.write(f"{target.name}: {target.tried:,} inputs, {target.accepted:,} accepted\n")
    total = sum(target.tried for target in TARGETS)
    grown = (peak_memory() - before) / 1_000_000
    sys.stdout.write(
        f"{total:,} inputs with seed {seed} in {monotonic() - began:.0f} s; peak memory grew by {grown:.0f} MB\n"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
