"""Rows of the state topic: their keys and their encoding.

A key begins with one letter, which is the kind of its row. ``identity`` is a conversation id and a side: 17 bytes.

    E identity            an endpoint, or the tombstone of a closed endpoint
    G origin 0 key        a conversation group
    H identity number     held: a record that arrived early, because a message before it is missing (its original bytes)
    D identity number     delayed: an envelope that its destination cannot accept now, or that waits for the next steps (encoded); or all fragments of a
                          message whose body is in pieces (``referred``)
    N identity number     a fragment: a part of a message that is not handled yet (its original bytes)
    W number              waiting: a record that is read and whose handler has not finished (in order of arrival)
    F identity            a parked dialog: it waits for the next attempt at a message that failed, or for a human
    R identity number     parked: first the failed message, then the records behind it (their original bytes)
    T identity letter     a failed handler without a message, of a timer (t), an error (e) or skipped messages (s), that waits for the next
                          attempt; the name of the timer follows the letter t
    K digest              a command that took effect, so that a repetition has no effect; or a piece of a command, or the number of messages that need
                          the pieces of a command
    L source              an open letter; the source is the topic and the offset of its record
    S key                 the succession of a key of a pool: the time at which its last dialog is replaced, and the ids of its dialogs that
                          are not closed, in order
    X identity timer      the trace context in which a timer was set, for the span of its handler; only if the service traces
    B identity            an ended dialog whose messages come back: they become dead letters over several steps (``returning``)
    P                     the partition itself
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from sys import intern
from typing import Final

from conversations import schemas
from conversations.errors import UndecodableRecord
from conversations.protocol.effects import Failure
from conversations.protocol.endpoint import NEVER, Endpoint
from conversations.protocol.envelope import decode
from conversations.protocol.envelope_run import encode_text, read_text
from conversations.protocol.fences import GENERATIONS, Chain, Fence
from conversations.protocol.kept import Kept
from conversations.protocol.registry import DEFAULT, HEAD_SIZE, Schema
from conversations.protocol.sequencing import Inbound, before_gap, last_whole
from conversations.protocol.spans import Spans
from conversations.protocol.timers import NamedTimers
from conversations.protocol.topics import COMMANDS, DECISIONS, QUEUE, kind_of
from conversations.protocol.varint import (
    PAIR_SIZE,
    PAIRS,
    encode_long,
    encode_numbers,
    read_long,
    read_numbers,
    read_pair,
)
from conversations.protocol.waiting_row import decode_waiting

IDENTITY_SIZE = 17
HANDLER_SIZE = IDENTITY_SIZE + 1
"""Size of an identity and the letter of a handler without a message."""
ENDPOINT, GROUP, HELD, DELAYED, WAITING, COMMAND = b"E", b"G", b"H", b"D", b"W", b"K"
PARK, PARKED, RETRY = b"F", b"R", b"T"
LETTER, UNACKNOWLEDGED, SUCCESSION, TRACE, FRAGMENT, RETURNING = b"L", b"U", b"S", b"X", b"N", b"B"
TIMER, ERROR, SKIPPED = b"t", b"e", b"s"
"""The letter in the key of a T row. It tells which handler without a message failed. The letter of a timer is followed by its name."""
WITHOUT_MESSAGE = (TIMER, ERROR, SKIPPED)
"""The handlers without a message. Timers with names have handlers of their own (``timer_handler``)."""
PARTITION, DECIDED = b"P", b"I"
"""The row with the positions and counts of a partition, and the row with its position in the decisions topic (``partition_row``)."""

_WAKE: Final = HEAD_SIZE
"""Position of the time at which the owner of an endpoint must look at it."""
_CONSTANT: Final = HEAD_SIZE + 8
"""Position at which the constant part of an endpoint's row begins."""
_NUMBERS = 12
"""Number of integers in an endpoint's row, from its state to its error code; see ``Kept``."""

_ENDPOINT, _TOMBSTONE, _GROUP = (
    Schema(schemas.load(name, schemas.newest(name))) for name in ("endpoint", "tombstone", "group")
)
_UNCOUNTED, _UNKEPT, _UNNAMED = (Schema(schemas.load("endpoint", version)).head for version in (1, 2, 3))
"""Heads of endpoint's rows in older schema versions. Version 1 lacks ``handled`` and ``stateful``; version 2 also lacks the fields after them.

Version 3 lacks the timers with names. A row without such timers is still written in version 3.
"""
_HEADS = (_UNNAMED, _ENDPOINT.head, _UNKEPT, _UNCOUNTED)
_KEEPING = (_UNNAMED, _ENDPOINT.head)
"""Heads of the rows that tell what the endpoint keeps for its peer."""
_TOMBSTONES = (_TOMBSTONE.head, Schema(schemas.load("tombstone", 1)).head)


def identity(conversation: bytes, initiator: bool) -> bytes:
    """Return the bytes that name one side of a conversation, encoded as in an envelope."""
    return conversation + (b"\1" if initiator else b"\0")


def other_side(name: bytes) -> bytes:
    """Return the bytes that name the opposite side."""
    return name[:16] + (b"\0" if name[16] else b"\1")


def numbered(kind: bytes, name: bytes, number: int) -> bytes:
    """Return the key of a held, delayed or parked row. Such keys sort by number."""
    return kind + name + number.to_bytes(8, "big")


SHARED = "*"
"""Origin of a group that initiators name (``to_group``). No service can have this name."""


def group_key(origin: str, key: str) -> bytes:
    """Return the key of a group row."""
    return b"G" + origin.encode() + b"\0" + key.encode()


def timer_handler(name: str) -> bytes:
    """Return the bytes that name the handler of a timer. The dialog timer has no name."""
    return TIMER + name.encode() if name else TIMER


def is_timer(handler: bytes) -> bool:
    """Return True if the handler is that of a timer."""
    return handler.startswith(TIMER)


def timer_of(handler: bytes) -> str:
    """Return the name of the timer from the bytes that name its handler."""
    return handler[1:].decode()


def trace_key(own: bytes, timer: str) -> bytes:
    """Return the key of the row with the trace context of a timer."""
    return TRACE + own + timer.encode()


def traced_timer(key: bytes) -> tuple[bytes, str]:
    """Return the identity and the name of the timer from the key of such a row."""
    return key[1 : 1 + IDENTITY_SIZE], key[1 + IDENTITY_SIZE :].decode()


# -- endpoints --------------------------------------------------------------------------------------------


def encode_constant(endpoint: Endpoint) -> bytes:
    """Encode the part of an endpoint's row that does not change. The owner keeps the result."""
    text = encode_text
    key = text(endpoint.key)
    return b"".join((
        text(endpoint.contract), text(endpoint.peer), key,
        key if endpoint.peer_key == endpoint.key else text(endpoint.peer_key), text(endpoint.origin),
        encode_long(-1 if endpoint.expires_at >= NEVER else endpoint.expires_at), encode_long(endpoint.started_until),
    ))  # fmt: skip


def encode_endpoint(endpoint: Endpoint, constant: bytes) -> bytes:
    """Encode an endpoint's row, without fastavro. ``constant`` is the result of ``encode_constant``."""
    number = encode_long
    error = endpoint.error
    row = b"".join((
        _UNNAMED, endpoint.wake().to_bytes(8, "big"), constant, number(endpoint.state), number(endpoint.inbound.next), number(endpoint.next_out),
        number(endpoint.acked), number(endpoint.told), number(endpoint.end_seq),
        b"\1" if endpoint.timer == NEVER else number(endpoint.timer), number(endpoint.asked),
        number(len(endpoint.inbound.held)), number(endpoint.discarded), number(endpoint.dead_lettered),
        b"\0\0" if error is None else _failure(error),
        b"\0" if not endpoint.inbound.missing else encode_numbers(sorted(endpoint.inbound.missing)),
        number(endpoint.handled), b"\1" if endpoint.stateful else b"\0",
        _KEPT[endpoint.resends] if endpoint.chain is None and not endpoint.fence and not endpoint.renews else _kept(endpoint),
    ))  # fmt: skip
    return row if endpoint.named is None else _ENDPOINT.head + row[HEAD_SIZE:] + _timers(endpoint.named)


def _timers(named: NamedTimers) -> bytes:
    return b"".join((
        encode_long(len(named.due)), *(encode_text(name) + encode_long(at) for name, at in sorted(named.due.items())), b"\0",
    ))  # fmt: skip


_KEPT: Final = bytes(6), bytes([1, 0, 0, 0, 0, 0])
"""The last six fields of an endpoint whose dialog is not broken, if it keeps no envelopes, and if it keeps them."""


def _kept(endpoint: Endpoint) -> bytes:
    chain = endpoint.chain or _FIRST
    return b"".join((
        b"\1" if endpoint.resends else b"\0", encode_long(endpoint.fence), b"\1" if endpoint.renews else b"\0",
        encode_long(chain.generation), encode_long(len(chain.first)), chain.first, encode_long(chain.number),
    ))  # fmt: skip


_FIRST = Chain(0, b"", 0)


def _failure(error: Failure) -> bytes:
    text = error.description.encode()
    return encode_long(error.code) + encode_long(len(text)) + text


def is_tombstone(row: bytes) -> bool:
    """Return True if the row is a tombstone, False if it is an endpoint."""
    return row.startswith(_TOMBSTONES)


def wake_of(row: bytes) -> int:
    """Return the time at which the owner must look at the endpoint or tombstone of a row: in microseconds, or ``NEVER``."""
    return int.from_bytes(row[_WAKE:_CONSTANT], "big")


def contract_of(row: bytes) -> bytes:
    """Return the contract's name from an endpoint's row, encoded in UTF-8.

    Raises:
        UndecodableRecord: the bytes are not an endpoint's row.
    """
    if not row.startswith(_HEADS):
        raise _foreign(row)
    size, at = read_long(row, _CONSTANT)
    return row[at : at + max(size, 0)]


def peer_of(row: bytes) -> str:
    """Return the peer's name from an endpoint's row.

    Raises:
        UndecodableRecord: the bytes are not an endpoint's row.
    """
    if not row.startswith(_HEADS):
        raise _foreign(row)
    return read_text(row, read_text(row, _CONSTANT)[1])[0]


def decode_endpoint(name: bytes, row: bytes, service: str) -> tuple[Endpoint, bytes]:
    """Decode an endpoint's row. Return the endpoint and the constant part of the row, as ``encode_constant`` makes it.

    The caller restores the held numbers from the held rows.

    Raises:
        UndecodableRecord: the bytes are not an endpoint's row.
    """
    if not row.startswith(_HEADS) or len(name) != IDENTITY_SIZE:
        raise _foreign(row)
    try:
        return _decode_endpoint(name, row, service)
    except (IndexError, ValueError) as error:
        raise UndecodableRecord(f"broken endpoint row: {error}") from error


def _foreign(row: bytes) -> UndecodableRecord:
    return UndecodableRecord(f"not an endpoint row of this schema: it begins with {row[:_CONSTANT].hex()}")


def _decode_endpoint(name: bytes, row: bytes, service: str) -> tuple[Endpoint, bytes]:
    contract, at = read_text(row, _CONSTANT)
    peer, at = read_text(row, at)
    key, at = read_text(row, at)
    peer_key, at = read_text(row, at)
    origin, at = read_text(row, at)
    times = PAIRS.get(row[at : at + PAIR_SIZE])
    if times is None:
        times, at = read_pair(row, at)
    else:
        at += PAIR_SIZE
    expires_at, started_until = times
    constant = row[_CONSTANT:at]
    numbers = []
    for _ in range(_NUMBERS):
        byte = row[at]
        if byte < 128:
            numbers.append(byte >> 1 ^ -(byte & 1))
            at += 1
        else:
            number, at = read_long(row, at)
            numbers.append(number)
    description, at = read_text(row, at)
    missing, at = _read_missing(row, at) if row[at] else (None, at + 1)
    handled, stateful = -1, 0
    if not row.startswith(_UNCOUNTED):
        handled, at = read_long(row, at)
        stateful, at = row[at], at + 1
    kept, at = _read_kept(row, at) if row.startswith(_KEEPING) else (_NOT_KEPT, at)
    timers, at = _read_timers(row, at) if row.startswith(_ENDPOINT.head) else (None, at)
    if at != len(row):
        raise UndecodableRecord(f"{len(row) - at} bytes after the end of an endpoint row")
    endpoint = Endpoint(
        name[:16], name[16] == 1, contract=intern(contract), service=service, peer=intern(peer), key=key,
        peer_key=key if peer_key == key else peer_key, expires_at=NEVER if expires_at < 0 else expires_at,
    )  # fmt: skip
    endpoint.origin = intern(origin)
    endpoint.started_until = started_until
    endpoint.handled, endpoint.stateful = handled, stateful == 1
    endpoint.resends, endpoint.fence, endpoint.renews, endpoint.chain = kept
    endpoint.restore(Inbound(numbers[1], missing), Kept._make((*numbers, description)))
    if timers:
        endpoint.restore_timers(timers)
    return endpoint, constant


_NOT_KEPT: tuple[bool, Fence, bool, Chain | None] = (False, Fence.NONE, False, None)


def _read_kept(row: bytes, at: int) -> tuple[tuple[bool, Fence, bool, Chain | None], int]:
    if row[at] < 2 and not any(row[at + 1 : at + 6]):
        return (row[at] == 1, Fence.NONE, False, None), at + 6
    resends = row[at]
    fence, at = read_long(row, at + 1)
    renews = row[at]
    if resends > 1 or renews > 1:
        raise UndecodableRecord("a boolean of an endpoint row is neither 0 nor 1")
    generation, at = read_long(row, at + 1)
    size, at = read_long(row, at)
    first = row[at : at + 16] if size else b""
    if (
        size not in (0, 16)
        or len(first) != size
        or not 0 <= generation <= GENERATIONS
        or (size > 0) is not (generation > 0)
    ):
        raise UndecodableRecord("broken chain of dialogs in an endpoint row")
    number, at = read_long(row, at + size)
    return (resends == 1, Fence(fence), renews == 1, Chain(generation, first, number) if generation else None), at


def _read_timers(row: bytes, at: int) -> tuple[dict[str, int], int]:
    found: dict[str, int] = {}
    count, at = read_long(row, at)
    while count:
        if not 0 < count <= len(row) - at:
            raise UndecodableRecord(f"an array of {count} timers in {len(row) - at} bytes")
        for _ in range(count):
            name, at = read_text(row, at)
            found[name], at = read_long(row, at)
        count, at = read_long(row, at)
    return found, at


def _read_missing(row: bytes, at: int) -> tuple[Spans, int]:
    numbers, at = read_numbers(row, at)
    return Spans(numbers), at


@dataclass(slots=True)
class Tombstone:
    """The facts that are kept about a closed endpoint."""

    key: str
    origin: str
    forget_at: int
    accepted: int
    transmitted: int
    discarded: int
    dead_lettered: int
    told: bool
    code: int
    missing: AbstractSet[int] = frozenset()
    """Numbers up to ``accepted`` that never arrived."""
    returned: int = 0
    """Number of this side's messages that the peer did not accept, and that became dead letters of this side."""
    replaced_by: bytes = b""
    """Id of the dialog on which the messages that the peer did not accept were sent again; empty if there is none."""

    @property
    def taken_over(self) -> int:
        """The last number of the peer that may be acknowledged, as ``Fencing.taken_over``. A positive code says that what is missing is taken over."""
        return (last_whole if self.code > 0 else before_gap)(self.accepted, self.missing)

    def hear(self, accepted: int, missing: AbstractSet[int]) -> None:
        """Set the last accepted number and the missing numbers after an envelope arrived late."""
        self.accepted, self.missing = accepted, missing

    def gave_up_on(self) -> None:
        """Count a message of the peer that became a dead letter."""
        self.dead_lettered += 1

    def came_back(self, returned: int, dropped: int) -> None:
        """Count further messages of this side that became dead letters, and requests that are dropped."""
        self.returned += returned
        self.discarded += dropped

    def tell(self) -> None:
        """Note that the peer has been told that the dialog is over."""
        self.told = True


def encode_tombstone(tombstone: Tombstone) -> bytes:
    """Encode a tombstone, without fastavro."""
    number = encode_long
    return b"".join((
        _TOMBSTONE.head, tombstone.forget_at.to_bytes(8, "big"), encode_text(tombstone.key), encode_text(tombstone.origin), number(tombstone.accepted),
        number(tombstone.transmitted), number(tombstone.discarded), number(tombstone.dead_lettered), b"\1" if tombstone.told else b"\0",
        number(tombstone.code), encode_numbers(sorted(tombstone.missing)) if tombstone.missing else b"\0", number(tombstone.returned),
        number(len(tombstone.replaced_by)), tombstone.replaced_by,
    ))  # fmt: skip


def decode_tombstone(row: bytes) -> Tombstone:
    """Decode a tombstone.

    Raises:
        UndecodableRecord: the bytes are not a tombstone.
    """
    fields = DEFAULT.decode(row, _TOMBSTONE)
    try:
        missing = Spans(fields["missing"]) if fields["missing"] else frozenset()
    except ValueError as error:
        raise UndecodableRecord(f"broken tombstone: {error}") from error
    return Tombstone(**fields | {"forget_at": int.from_bytes(fields["forget_at"], "big"), "missing": missing})


# -- groups -------------------------------------------------------------------


@dataclass(slots=True)
class GroupRow:
    """A conversation group: its state and its endpoints. The first endpoint opened the group."""

    version: int = 0
    state: bytes = b""
    members: dict[bytes, None] = field(default_factory=dict)
    """The endpoints' identities, in the order in which they joined. The values of the dictionary have no meaning."""
    is_known: bool = False
    """True if this process wrote the state, and knows all fields of it. It is not part of the row."""

    def keep(self, state: bytes, version: int, *, is_known: bool = False) -> None:
        """Set the state that a handler wrote, and its version: the service's ``state_version``."""
        self.state, self.version, self.is_known = state, version, is_known


def encode_group(row: GroupRow) -> bytes:
    """Encode a group row, without fastavro."""
    parts = [_GROUP.head, encode_long(row.version), encode_long(len(row.state)), row.state]
    if row.members:
        parts.append(encode_long(len(row.members)))
        for member in row.members:
            parts += (encode_long(len(member)), member)
    parts.append(b"\0")
    return b"".join(parts)


def decode_group(row: bytes) -> GroupRow:
    """Decode a group row.

    Raises:
        UndecodableRecord: the bytes are not a group row.
    """
    fields = DEFAULT.decode(row, _GROUP)
    return GroupRow(**fields | {"members": dict.fromkeys(fields["members"])})


def trimmed(key: bytes, row: bytes) -> bytes:
    """Return the part of a row that readers outside the workers need.

    Of a command that took effect they need only the key. Of a delayed envelope they need its number, as text; it is empty if the envelope has no
    number.
    """
    if key[:1] == COMMAND:
        return b""
    if key[:1] != DELAYED:
        return row
    try:
        number = decode(decode_waiting(row).value).seq
    except UndecodableRecord:
        return b""
    return b"" if number < 0 else b"%d" % number


def letter_key(topic: str, offset: int) -> bytes:
    """Return the key of an open letter's row, made from the source of its record: the topic (one of ``INPUTS``) and the offset."""
    return LETTER + _SOURCES[kind_of(topic)] + offset.to_bytes(8, "big") + bytes(8)


def letter_source(key: bytes) -> tuple[str, int]:
    """Return the kind of topic and the offset from the key of a letter's row."""
    return _KINDS.get(key[1:2], COMMANDS), int.from_bytes(key[2:10], "big")


_SOURCES = {QUEUE: b"q", COMMANDS: b"c", DECISIONS: b"d"}
_KINDS = {letter: kind for kind, letter in _SOURCES.items()}
