"""Reads the dialogs of services from their state topics: the state of each side, its numbers, and the records that wait there."""

from __future__ import annotations

import time
from collections.abc import Mapping, MutableSet, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice, pairwise
from typing import NamedTuple

from conversations.config import Kafka
from conversations.kafka.catalog import read_catalog
from conversations.protocol import parked, rows
from conversations.protocol.command import decode_command
from conversations.protocol.envelope import Kind, decode
from conversations.protocol.identifiers import drawn_at, uuid_text
from conversations.protocol.parked import Parked
from conversations.protocol.states import State
from conversations.protocol.succession import decode_succession
from conversations.protocol.topics import STATE, has_commands, service_topic
from conversations.protocol.unacknowledged import decode_tails
from conversations.protocol.waiting_row import WaitingRow, decode_waiting
from conversations_ops.operate.left_out import LeftOut
from conversations_ops.operate.state import services, tables

FIRST = 5
"""Number of records whose types are named."""
MISSING = 100
"""Maximum number of missing numbers that are shown."""
_KEEP = (rows.HELD, rows.DELAYED, rows.WAITING, rows.PARKED)
_KINDS = (rows.ENDPOINT, rows.PARK, rows.RETRY, rows.UNACKNOWLEDGED, rows.SUCCESSION, *_KEEP)
STATES = {state: state.name.lower().replace("_", " ") for state in State}
"""The states of an endpoint, in the words of docs/protocol.md."""


@dataclass(slots=True)
class Pile:
    """Records that are kept as rows of one kind."""

    records: int = 0
    messages: int = 0
    """Number of messages among the records. Only they become dead letters."""
    bytes: int = 0
    first: list[str] = field(default_factory=list)
    """Message types of the first records, at most ``FIRST``; END, ERROR or ACK for an envelope of another kind."""

    def add(self, name: str, size: int, *, is_message: bool) -> None:
        """Count a record."""
        self.records += 1
        self.messages += is_message
        self.bytes += size
        if len(self.first) < FIRST:
            self.first.append(name)


@dataclass(slots=True)
class Waits:
    """The records that wait at one side of a dialog."""

    held: Pile = field(default_factory=Pile)
    """Records of the peer that arrived early."""
    waiting: Pile = field(default_factory=Pile)
    """Records and commands that are read and not finished."""
    parked: Pile = field(default_factory=Pile)
    """A message that failed, or that waits for the queue or the brake, and the records behind it."""
    delayed: Pile = field(default_factory=Pile)
    """Envelopes of this side that the peer's topic cannot take now."""
    unacknowledged: Pile = field(default_factory=Pile)
    """Messages and the END of this side that its peer has not acknowledged. Their number is that of the last look at the rows."""

    @property
    def records(self) -> int:
        """Number of all these records."""
        return self.held.records + self.waiting.records + self.parked.records + self.delayed.records

    def pile(self, kind: bytes) -> Pile:
        """Return the records that are kept in rows of a kind."""
        piles = {
            rows.HELD: self.held, rows.WAITING: self.waiting, rows.PARKED: self.parked, rows.DELAYED: self.delayed,
        }  # fmt: skip
        return piles[kind]


class Closed(NamedTuple):
    """The facts that a tombstone has, and an open endpoint does not."""

    told: bool
    """True if the peer was told that the dialog is over on this side."""
    forget_at: int
    """Log time at which the tombstone is deleted, microseconds since 1970."""


@dataclass(slots=True)
class Side:
    """One side of a dialog, as its state topic has it. Times are in microseconds since 1970."""

    service: str
    partition: int
    conversation: bytes
    initiator: bool
    state: State
    key: str
    """Key of the conversation group."""
    origin: str
    """Service that chose this key; empty for this service itself, ``rows.SHARED`` for a group that initiators name."""
    sent: int
    """Number of envelopes that this side has sent, with its END or ERROR."""
    accepted: int
    """Number of envelopes of the peer that this side has accepted."""
    code: int
    """Code of the error with which the dialog broke; 0 if it is not broken."""
    discarded: int
    dead_lettered: int
    missing: tuple[int, ...] = ()
    """Numbers of the peer that were passed over when the dialog ended, and have not arrived."""
    contract: str = ""
    """Empty if the side is closed, as the fields after it are."""
    peer: str = ""
    description: str = ""
    acknowledged: int = 0
    """Number of sent envelopes that the peer has acknowledged."""
    handled: int | None = None
    """Number of accepted messages whose handler has finished; None if it is not known."""
    timers: dict[str, int] = field(default_factory=dict)
    """Time of each timer, by its name. The dialog timer has no name."""
    lifetime_ends: int | None = None
    """None if the lifetime is unlimited, or if the dialog is over or broken."""
    closed: Closed | None = None
    before: str = ""
    """Id of the dialog that is before this one in its pool, and must be closed before this side transmits; empty if there is none."""
    waits: Waits = field(default_factory=Waits)
    heads: list[Parked] = field(default_factory=list)
    """The failed message, and the failed handlers without a message, for which this side waits."""

    @property
    def identity(self) -> bytes:
        """The bytes that name this side in rows."""
        return rows.identity(self.conversation, self.initiator)

    @property
    def name(self) -> str:
        """The id of the dialog."""
        return uuid_text(self.conversation)

    @property
    def began(self) -> int | None:
        """Time at which the id of the dialog was made; None if the id has no time."""
        return drawn_at(self.conversation)


class Selector(NamedTuple):
    """Conditions on a side. An empty field is no condition."""

    contract: str = ""
    state: State | None = None
    peer: str = ""
    pending: bool = False
    """Only sides with records that wait, or with a failed handler."""
    older_than: timedelta | None = None
    """Only dialogs whose id was made at least this long ago."""
    closed: bool = False
    """True: also sides that are closed."""

    def matches(self, it: Side, now: int) -> bool:
        """Return True if the side meets all conditions. ``now`` is in microseconds since 1970."""
        if it.closed is not None and not (self.closed or self.state is State.CLOSED):
            return False
        if self.older_than is not None and (
            it.began is None or now - it.began < self.older_than // timedelta(microseconds=1)
        ):
            return False
        return (
            self.contract in ("", it.contract)
            and self.state in (None, it.state)
            and self.peer in ("", it.peer)
            and (not self.pending or bool(it.waits.records or it.heads))
        )


def dialogs(kafka: Kafka, service: str, wanted: Selector) -> list[Side]:
    """List sides of dialogs from whole topics, the oldest dialog first. Tests compare it with the read model (``read_model.dialogs.listed``).

    Args:
        kafka: the cluster and namespace.
        service: list only sides of this service. If it is empty, list the sides of all services in the catalog.
        wanted: conditions on the sides.

    Raises:
        DeclarationError: there is no such service.
        LogError: a topic cannot be read.
    """
    now = time.time_ns() // 1_000
    found = [it for name in services(kafka, service) for it in _sides(kafka, name) if wanted.matches(it, now)]
    return sorted(found, key=lambda it: (it.began or 0, it.conversation, not it.initiator))


def sides_of(kafka: Kafka, conversation: bytes, service: str = "") -> list[Side]:
    """Return the known sides of a dialog from whole topics, as ``read_model.dialogs.known_sides`` does from the read model, for tests.

    Args:
        kafka: the cluster and namespace.
        conversation: the id of the dialog.
        service: a service that has a side. Then only its state and that of its peer are read. If it is empty, the states of all
            services are searched.

    Raises:
        LookupError: no service has a side of this dialog.
        DeclarationError: there is no such service.
        LogError: a topic cannot be read.
    """
    found: list[Side] = []
    left = list(services(kafka, service))
    known = read_catalog(kafka).services
    while left and len(found) < 2:
        name = left.pop(0)
        here = _sides(kafka, name, conversation)
        found += here
        if peers := [it.peer for it in here if it.peer]:  # a closed side does not know its peer, so the search goes on
            left = [it for it in peers if it in known and it != name]
    if not found:
        raise not_known(conversation, service)
    return sorted(found, key=lambda it: not it.initiator)


def not_known(conversation: bytes, service: str = "") -> LookupError:
    """Return the error for a dialog of which no side was found at a service, or at any service if it is empty."""
    where = f"service {service!r}" if service else "any service of the namespace"
    return LookupError(
        f"{uuid_text(conversation)} is not known in the state of {where}: the id is wrong, the dialog has not begun yet, or it is over "
        "and its tombstone is deleted"
    )


def _sides(kafka: Kafka, service: str, conversation: bytes = b"") -> list[Side]:
    def wanted(key: bytes) -> bool:
        return key[:1] in (rows.WAITING, rows.SUCCESSION) or key[1:17] == conversation

    found = tables(kafka, service, _KINDS, wanted if conversation else None)
    sides = [it for number, table in found.items() for it in sides_in(table, (kafka.namespace, service, number))]
    return [it for it in sides if conversation in (b"", it.conversation)]


def sides_in(table: Mapping[bytes, bytes], where: tuple[str, str, int]) -> list[Side]:
    """List the sides in the rows of a partition. Leave out unreadable rows, and log a warning.

    ``where`` is the namespace, the service and the number of the partition.
    """
    namespace, service, partition = where
    left_out = LeftOut(service_topic(namespace, service, STATE))

    def aside(key: bytes, why: Exception) -> None:
        left_out.add(f"partition {partition} row {key.hex()}", why)

    found: dict[bytes, Side] = {}
    for key, row in table.items():
        try:
            if key[:1] == rows.ENDPOINT:
                found[key[1:]] = _side(key[1:], row, service, partition)
        except (ValueError, LookupError) as error:
            aside(key, error)
    for key, row in sorted(table.items()):
        try:
            if key[:1] in _KEEP:
                _count(found, key, decode_waiting(row))
            elif key[:1] == rows.UNACKNOWLEDGED and key[1:18] in found:
                _count_sent(found[key[1:18]].waits.unacknowledged, decode_tails(row))
            elif key[:1] == rows.SUCCESSION:
                queue_up(found, decode_succession(row).dialogs)
        except (ValueError, LookupError) as error:
            aside(key, error)
    for it in parked.parked(table, service, partition, aside):
        own = rows.identity(bytes.fromhex(it.conversation.replace("-", "")), it.initiator)
        if own in found:
            found[own].heads.append(it)
    left_out.tell()
    return list(found.values())


def _side(own: bytes, row: bytes, service: str, partition: int) -> Side:
    if len(own) != rows.IDENTITY_SIZE:
        raise ValueError(f"the name of a side has {len(own)} bytes")
    if rows.is_tombstone(row):
        stone = rows.decode_tombstone(row)
        return Side(
            service, partition, own[:16], own[16] == 1, State.CLOSED, stone.key, stone.origin, stone.transmitted + 1,
            stone.accepted + 1, stone.code, stone.discarded, stone.dead_lettered, _first_of(stone.missing),
            closed=Closed(stone.told, stone.forget_at),
        )  # fmt: skip
    it, _ = rows.decode_endpoint(own, row, service)
    return Side(
        service, partition, own[:16], own[16] == 1, it.state, it.key, it.origin, it.next_out, it.inbound.next,
        0 if it.error is None else it.error.code, it.discarded, it.dead_lettered, _first_of(it.inbound.missing),
        it.contract, it.peer, "" if it.error is None else it.error.description, it.acked + 1,
        None if it.handled < 0 else it.handled, it.timers(), parked.lifetime_end(it),
    )  # fmt: skip


def _first_of(numbers: AbstractSet[int] | MutableSet[int]) -> tuple[int, ...]:
    return tuple(islice(sorted(numbers), MISSING))


def queue_up(found: Mapping[bytes, Side], dialogs: Sequence[bytes]) -> None:
    """Note at the sides of a pool's key which dialog is before them. ``dialogs`` are the names of all sides of the key, the oldest first."""
    for before, own in pairwise(dialogs):
        if own in found:
            found[own].before = uuid_text(before[:16])


def _count_sent(pile: Pile, tails: Sequence[bytes]) -> None:
    for tail in tails:
        is_message = tail[:1] == bytes([2 * Kind.MESSAGE])
        pile.add("message" if is_message else "END", len(tail), is_message=is_message)


def _count(found: Mapping[bytes, Side], key: bytes, row: WaitingRow) -> None:
    """Add a kept record to its side. A record of a side without an endpoint is not counted, for example the first message of a dialog."""
    own, is_message = key[1:18], False
    if key[:1] == rows.WAITING and has_commands(row.topic):
        command = decode_command(row.value)
        own, name = rows.identity(command.conversation_id, command.from_initiator), "command"
    else:
        envelope = decode(row.value)
        is_message = envelope.kind is Kind.MESSAGE
        name = envelope.message_type if is_message else envelope.kind.name
        if key[:1] == rows.WAITING:
            own = rows.identity(envelope.prefix.conversation_id, not envelope.prefix.from_initiator)
    if own in found:
        found[own].waits.pile(key[:1]).add(name, len(row.value), is_message=is_message)
