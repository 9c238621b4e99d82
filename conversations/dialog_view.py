"""How one side of a dialog stands, as the committed rows of its service tell it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import cached_property
from typing import Any, Generic, NamedTuple

from typing_extensions import TypeVar

from conversations.errors import PeerError
from conversations.group_state import StateCodec
from conversations.ports import Table
from conversations.protocol import repetitions, rows
from conversations.protocol.code_table import of_error
from conversations.protocol.endpoint import Endpoint
from conversations.protocol.identifiers import Handle, drawn_at, uuid_text
from conversations.protocol.letters import RefusedCommand
from conversations.protocol.park_row import QUEUE_ON, ParkRow, decode_park
from conversations.protocol.states import State
from conversations.protocol.succession import dialog_before
from conversations.protocol.times import moment

S = TypeVar("S", default=dict[str, Any])


class Status(StrEnum):
    """Status of one side of a dialog."""

    NOT_SEEN_YET = "not seen yet"
    """No worker has carried out a command or an envelope that begins the dialog. There may be none, or it may be on its way."""
    OPEN = "open"
    ENDED = "ended"
    """The dialog is over on this side, without an error of the peer."""
    FAILED = "failed"
    """The peer ended the dialog with an error, or the dialog broke. ``on_error`` may not have run yet."""
    FORGOTTEN = "forgotten"
    """The dialog is over, and its rows are deleted. Or it never began, and cannot begin any more."""


class Sent(NamedTuple):
    """Numbers of the messages that this side has sent, together with its END."""

    sequenced: int = 0
    """Messages that the owner of the dialog has given a number, in a committed transaction. No message of them is lost."""
    delayed: int = 0
    """Messages of these that wait on this side, because their destination accepts no records."""
    unacknowledged: int | None = 0
    """Messages of these that were transmitted, and that the peer has not acknowledged yet; None if this side is over, and it is not kept."""
    acknowledged: int | None = 0
    """Messages of these that the peer's owner has accepted, and has acknowledged; None if this side is over, and it is not kept."""


class Received(NamedTuple):
    """Numbers of the messages of the peer on this side."""

    accepted: int = 0
    """Messages that the owner of this side has accepted, together with the peer's END."""
    handled: int | None = None
    """Messages of these whose handler has finished; None if that is not kept, because this side is over."""
    parked: int = 0
    """Records of these that wait for another attempt of a handler, for an operator, or behind such a message."""
    given_up: int = 0
    """Messages that became dead letters of this service."""


class DialogView(Generic[S]):
    """How one side of a dialog stands. It does not change any more: ask the ``Reader`` again for a newer one."""

    def __init__(
        self, name: Handle, found: Found, codec: StateCodec, as_of: int, refused: Sequence[RefusedCommand]
    ) -> None:
        self.handle = name.text
        self.status = found.status
        self.contract = found.contract
        """Name of the contract; empty if it is not known."""
        self.peer = found.peer
        """Name of the other service; empty if it is not known."""
        self.sent = found.sent
        self.received = found.received
        self.waiting_for = found.waiting_for
        """What the dialog waits for on this side, for people; None if this side waits for nothing but the peer's messages."""
        self.error = found.error
        """The error with which the dialog ended; None if there is none. After the end, only the code of an application's error is kept."""
        self.refused = tuple(refused)
        """Commands of clients for this side that were refused: none of their requests took effect."""
        self.as_of = moment(as_of)
        """Time of the reading, by the clock of the reader. Everything that was committed before is in the view."""
        self._codec, self._group = codec, found.group

    def __repr__(self) -> str:
        return f"DialogView({self.handle}, {self.status}, {self.sent}, {self.received})"

    @property
    def is_over(self) -> bool:
        """True if the dialog is over on this side."""
        return self.status in (Status.ENDED, Status.FAILED, Status.FORGOTTEN)

    @cached_property
    def state(self) -> S:
        """A copy of the state of the group; the state of a new group if there is none.

        Raises:
            StateUpgradeError: the stored state does not load.
        """
        stored = rows.GroupRow() if self._group is None else self._group
        state: S = self._codec.decode(stored.state, stored.version)
        return state

    def told(self) -> str:
        """Say in one sentence how the dialog stands."""
        sent = self.sent
        facts = [
            f"{sent.sequenced} sent" + (f", {sent.acknowledged} acknowledged" if sent.acknowledged is not None else "")
        ]
        facts += [f"{sent.delayed} delayed"] * (sent.delayed > 0)
        facts += [f"waits for {self.waiting_for}"] * (self.waiting_for is not None)
        facts += [f"command refused: {it.text}" for it in self.refused[-1:]]
        return f"the dialog is {self.status}: {'; '.join(facts)}"


class Found(NamedTuple):
    """The facts about one side of a dialog in the rows of its partition."""

    status: Status
    contract: str = ""
    peer: str = ""
    sent: Sent = Sent()
    received: Received = Received()
    error: PeerError | None = None
    waiting_for: str | None = None
    group: rows.GroupRow | None = None


def find(table: Table, name: Handle, service: str) -> Found:
    """Find one side of a dialog in the rows of its partition.

    Raises:
        UndecodableRecord: a row has another form than this release writes or knows.
    """
    own = rows.identity(name.conversation, name.initiator)
    row = table[rows.ENDPOINT].get(rows.ENDPOINT + own)
    if row is None:
        began = repetitions.begun(name.conversation, name.initiator) in table[rows.COMMAND]
        waits = f"a worker of {service!r} to begin the dialog, if a client wrote it"
        return Found(Status.FORGOTTEN) if began else Found(Status.NOT_SEEN_YET, waiting_for=waits)
    if rows.is_tombstone(row):
        return _closed(table, rows.decode_tombstone(row))
    endpoint, _ = rows.decode_endpoint(own, row, service)
    delayed = sum(key[1:18] == own and bool(seq) for key, seq in table[rows.DELAYED].items())
    park = table[rows.PARK].get(rows.PARK + own)
    parked = None if park is None else decode_park(park)
    acknowledged = endpoint.acked + 1
    sent = Sent(endpoint.next_out, delayed, max(endpoint.next_out - acknowledged - delayed, 0), acknowledged)
    error = None if endpoint.error is None else PeerError(endpoint.error.code, endpoint.error.description)
    received = Received(
        endpoint.inbound.accepted + 1, endpoint.handled if endpoint.handled >= 0 else None,
        0 if parked is None else parked.next - parked.first, endpoint.dead_lettered,
    )  # fmt: skip
    status = Status.FAILED if error is not None else Status.ENDED if endpoint.state is State.CLOSED else Status.OPEN
    return Found(
        status, endpoint.contract, endpoint.peer, sent, received, error, _waiting_for(table, endpoint, own, parked, sent),
        _group(table, endpoint.origin, endpoint.key),
    )  # fmt: skip


def can_still_begin(name: Handle, as_of: int, life: int) -> bool:
    """Return True if a dialog that was never seen may begin after ``as_of``. A command begins no dialog ``life`` after its id was drawn."""
    drawn = drawn_at(name.conversation)
    return drawn is None or drawn + life >= as_of


def _closed(table: Table, tombstone: rows.Tombstone) -> Found:
    code, known = tombstone.code, of_error(tombstone.code)
    error = PeerError(code, "" if known is None else known.text) if code else None
    numbers = max(tombstone.transmitted + 1, 0)
    return Found(
        Status.FAILED if code else Status.ENDED, sent=Sent(numbers, acknowledged=None, unacknowledged=None),
        received=Received(tombstone.accepted + 1, given_up=tombstone.dead_lettered), error=error,
        group=_group(table, tombstone.origin, tombstone.key),
    )  # fmt: skip


def _group(table: Table, origin: str, key: str) -> rows.GroupRow | None:
    row = table[rows.GROUP].get(rows.group_key(origin, key))
    return None if row is None else rows.decode_group(row)


def _waiting_for(table: Table, endpoint: Endpoint, own: bytes, parked: ParkRow | None, sent: Sent) -> str | None:
    if parked is not None:
        return _park(parked, "a message of the peer")
    timers = [(rows.timer_handler(name), "on_timer") for name in endpoint.timers()]
    for handler, what in ((rows.ERROR, "on_error"), *timers, (rows.SKIPPED, "on_skipped")):
        if (row := table[rows.RETRY].get(rows.RETRY + own + handler)) is not None:
            return _park(decode_park(row), f"the handler {what}")
    row = table[rows.SUCCESSION].get(rows.SUCCESSION + endpoint.key.encode())
    before = None if row is None else dialog_before(row, own)
    if before is not None:
        return f"the end of dialog {uuid_text(before[:16])}, which is before it in its pool ({sent.delayed} delayed)"
    if sent.delayed:
        return f"the queue of {endpoint.peer!r} to accept records ({sent.delayed} delayed)"
    if sent.unacknowledged:
        return f"{endpoint.peer!r} to acknowledge {sent.unacknowledged} of {sent.sequenced}"
    return None


def _park(park: ParkRow, what: str) -> str:
    why = f": {park.failure}" if park.failure else ""
    if park.due == QUEUE_ON:
        return f"the queue to be on, or the brake to be off, for {what}{why}"
    if park.due > QUEUE_ON:
        return f"an operator to decide about {what}{why}"
    return f"another attempt at {what} at {moment(park.due).isoformat(timespec='seconds')}{why}"
