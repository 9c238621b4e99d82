"""The objects that a partition's owner keeps in memory: endpoints, parks, lanes, and the items of lanes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, cast

from conversations.handlers import Side
from conversations.protocol.command import Command
from conversations.protocol.endpoint import NEVER, Endpoint, prefix_of
from conversations.protocol.envelope import Envelope, Prefix, encode_prefix
from conversations.protocol.park_row import QUEUE_ON, ParkRow
from conversations.protocol.partition_row import record_name
from conversations.protocol.rows import SKIPPED, GroupRow, Tombstone, encode_constant
from conversations.scheduler import Run, Steps
from conversations.worker.sent import NOTHING_SENT, Sent
from conversations.worker.wires import NOWHERE, Way, Wire

SKIPPED_LIMIT = 1_000
"""Maximum number of skipped messages whose numbers wait for a handler that failed. The events have the others."""
NO_ROW: Final = -1
_COMPACTED: Final = 64
"""Number of taken places at the front of a lane from which on they are removed."""


class Active:
    """One side of a conversation in the memory of its owner. There is an ``Active`` even if this side has no endpoint (yet)."""

    endpoint: Endpoint
    side: Side
    """The handlers of the service on this side of the contract."""
    out_key: bytes
    """Record key of the envelopes to the peer."""

    __slots__ = (
        "constant", "endpoint", "entered", "exists", "from_peer", "identity", "lane", "out", "out_key", "scheduled", "sent", "side", "tombstone", "way",
    )  # fmt: skip

    def __init__(self, identity: bytes, lane: Lane) -> None:
        self.identity = identity
        self.lane = lane
        self.exists = False
        """True if there is an endpoint, open or closed. ``endpoint`` and ``side`` are set only in this case."""
        self.tombstone: Tombstone | None = None
        self.from_peer: tuple[Prefix, bytes, Wire | None] | None = None
        """The constant prefix of the peer's envelopes, decoded and encoded, and the way on which they come; None until it is known."""
        self.out = b""
        """The constant prefix of this side's envelopes, encoded; empty until needed."""
        self.way = NOWHERE
        """Where this side's envelopes go."""
        self.sent: Sent | None = NOTHING_SENT
        """The unacknowledged envelopes; None if an endpoint was restored from its row, and its other rows were not looked for yet."""
        self.constant = b""
        """Constant part of the endpoint's state row, encoded; empty until needed."""
        self.scheduled = NEVER
        """Time of the earliest entry for this endpoint in its partition's schedule; NEVER if there is none."""
        self.entered = 0
        """Time of the latest entry that is certainly in the schedule; 0 if no entry is known. This entry need not be added again."""

    def place(self, endpoint: Endpoint, side: Side, prefix: Prefix | None = None) -> None:
        """Set the endpoint and its handlers. ``prefix`` is the prefix of the peer's envelope, if an envelope created the endpoint."""
        if self.from_peer is not None and prefix is not self.from_peer[0]:
            self.from_peer = None
        self.endpoint = endpoint
        self.side = side
        self.exists = True
        self.out_key = endpoint.peer_key.encode()
        self.out = self.constant = b""

    def begin(self, endpoint: Endpoint, side: Side) -> None:
        """Set the initiator's endpoint of a new dialog, and its handlers."""
        self.place(endpoint, side)
        endpoint.keep_sent(side.keeps_sent)
        endpoint.renew_when_broken(side.renews)

    @property
    def key(self) -> bytes:
        """Record key of this side, which is the key of its group."""
        return self.lane.key

    @property
    def is_hollow(self) -> bool:
        """True if this side has no endpoint, no tombstone and no work. Then the next record decides the group of this side."""
        return not (self.exists or self.tombstone is not None or self.lane.has_items or self.lane.run is not None)

    def learn(self, prefix: Prefix, encoded: bytes, wire: Wire | None) -> None:
        """Remember the constant prefix of the peer's envelopes, decoded and encoded, and the way on which they come."""
        self.from_peer = prefix, encoded, wire

    def enter(self, deadline: int) -> None:
        """Note a new entry in the schedule, which is earlier than all other entries of this endpoint."""
        self.scheduled = deadline
        self.entered = max(self.entered, deadline)

    def restore_entry(self, deadline: int) -> None:
        """Note the schedule's entry for the next deadline. The entry was made from the endpoint's row, before the endpoint was decoded."""
        self.scheduled = deadline

    def passed(self, now: int) -> None:
        """Note that an entry of this endpoint was taken out of the schedule."""
        if not now < self.scheduled <= self.entered:  # else the earliest entry is still in the schedule
            self.entered = self.entered if self.entered > now else 0
            self.scheduled = self.entered or NEVER

    def entomb(self, tombstone: Tombstone) -> None:
        """Set the tombstone of a conversation that is over on this side, or never began."""
        self.tombstone = tombstone

    def route(self, way: Way) -> None:
        """Set where this side's envelopes go."""
        self.way = way

    def forget_encoded(self) -> None:
        """Forget the encoded constant parts of the envelopes and of the row, because they changed. The next use encodes them again."""
        self.out = self.constant = b""

    def restore(self, endpoint: Endpoint, side: Side, constant: bytes) -> None:
        """Set an endpoint that was decoded from its row; ``constant`` is the constant part of that row."""
        self.place(endpoint, side)
        self.constant = constant
        if (endpoint.initiator or endpoint.far is not None) and endpoint.acked < endpoint.next_out - 1:
            self.sent = None

    def begin_sent(self) -> Sent:
        """Note that this side has unacknowledged envelopes; return the object that counts them."""
        self.sent = sent = Sent()
        return sent

    def end_sent(self) -> None:
        """Note that this side has no unacknowledged envelopes."""
        self.sent = NOTHING_SENT

    def out_prefix(self) -> bytes:
        """Return the encoded constant prefix of this side's envelopes. It is encoded only at the first call."""
        if not self.out:
            self.out = encode_prefix(prefix_of(self.endpoint))
        return self.out

    def row_constant(self) -> bytes:
        """Return the encoded constant part of the state row. It is encoded only at the first call."""
        if not self.constant:
            self.constant = encode_constant(self.endpoint)
        return self.constant


@dataclass(slots=True, eq=False)
class Park:
    """A parked dialog, or a waiting handler without a message (the handler of a timer or of an error)."""

    row: ParkRow
    taken: bool = False
    """True from the turn of the park until the park waits again. In this time, the park's item is in its lane, or will soon be there."""
    peer: str = ""
    """The peer of the dialog. After a restore it is empty until the park waits again."""
    suspect: bool = False
    """True if the park has records from before the partition was opened."""

    @property
    def wakes(self) -> int:
        """Time of the next attempt; NEVER if the park waits for an operator, for the queue to be on, or for the brake to be off."""
        return self.row.due if self.row.due < QUEUE_ON else NEVER

    @property
    def waits_its_turn(self) -> bool:
        """True if the head waits for the queue to be on or the brake to be off, or if it has not failed yet.

        Such a head does not count as failed.
        """
        return self.row.due == QUEUE_ON or not self.row.failure

    @property
    def keeps_suspicion(self) -> bool:
        """True if a record of the park may have killed an earlier process, and has not had its turn since the partition was opened."""
        return self.suspect and self.waits_its_turn

    def count(self, records: int, size: int) -> None:
        """Add to the records and bytes behind failed messages, for which there are limits. Negative numbers subtract."""
        self.row.counted += records
        self.row.counted_size += size

    def add(self, size: int, *, is_end: bool, suspect: bool) -> None:
        """Account for a record that was added behind the other records of the park."""
        self.row.next += 1
        self.row.size += size
        self.row.ended |= is_end
        self.suspect |= suspect

    def drop_head(self, size: int) -> None:
        """Remove the head. The next record becomes the head: it has no failure, and no operator has decided about it."""
        self.row.first += 1
        self.row.returns, self.row.returned, self.row.failure, self.row.edited = 0, "", "", ""
        self.row.size -= size

    def replace_head(self, grown: int) -> None:
        """Account for a head whose body was replaced; ``grown`` is the difference in bytes."""
        self.row.size += grown

    def begin(self, now: int) -> None:
        """Set the time at which the wait of the present head began."""
        self.row.since = now

    def fail(self, failure: str, peer: str) -> None:
        """Note the last failure of the head, and the peer. ``failure`` is empty if the head has not failed yet."""
        self.row.failure, self.peer = failure, peer

    def add_skipped(self, numbers: Iterable[int]) -> None:
        """Add the numbers of messages that the peer skipped. If too many wait for the handler, the last ones are left out."""
        self.row.skipped = sorted({*self.row.skipped, *numbers})[:SKIPPED_LIMIT]

    def attempted(self, attempts: int) -> None:
        """Set the number of failed attempts of a handler without a message."""
        self.row.attempts = attempts

    def take(self) -> None:
        """Note that the turn of the park has come."""
        self.taken = True

    def give_back(self, command: str, edited: str) -> None:
        """Note an operator's command that gives the head back to its handler. If the command changed the body, ``edited`` is its id."""
        self.row.returns += 1
        self.row.returned = command
        self.row.edited = edited or self.row.edited

    def take_returned(self) -> str:
        """Return the command that gave the head back to its handler, and forget the command; "" if there was none."""
        command, self.row.returned = self.row.returned, ""
        return command

    def bring_forward(self, due: int) -> None:
        """Set the time of the next attempt. The ticket does not change, so a decision about the present state remains valid."""
        self.row.due = due

    def wait(self, due: int, now: int) -> None:
        """Wait until ``due``. ``NEVER`` means until an operator decides; ``QUEUE_ON`` means until the queue is on, or the brake is off."""
        self.row.due = due
        self.row.ticket = max(self.row.ticket + 1, now)
        self.taken = False


@dataclass(slots=True, eq=False)
class Item:
    """One piece of work in a lane: an ``Arrival``, an ``Order`` or a ``Deadline``."""

    active: Active
    attempts: int = field(default=0, kw_only=True)
    """Number of failed attempts of its handler."""
    suspect: bool = field(default=False, kw_only=True)
    """True if the item is suspect. Then it must be announced before it is carried out."""
    handler: bytes = field(default=b"", kw_only=True)
    """``rows.TIMER``, ``rows.ERROR`` or ``rows.SKIPPED`` if a handler without a message runs or must run for the item; else empty."""
    park: Park | None = field(default=None, kw_only=True)
    """The park that the item comes from, if the item is tried again."""
    row: int = field(default=NO_ROW, kw_only=True)
    """Number of the waiting row that keeps the item's record; ``NO_ROW`` if there is none."""

    @property
    def record(self) -> str:
        """Name of the record that the item was made from; "" for a deadline."""
        return ""

    @property
    def name(self) -> str:
        """Name of the item, the same in every process that handles it.

        It is the name of the item's record, with two exceptions: the item has no record, or a handler without a message runs for the item.
        Then the name is made from the endpoint's identity.
        """
        return (not self.handler and self.record) or f"{self.active.identity.hex()}-deadline"

    @property
    def needs_record(self) -> bool:
        """True if the item's record must be kept until the item is settled.

        A timer or an error is in the endpoint's row. Nothing but the record has the numbers of skipped messages.
        """
        return self.handler in (b"", SKIPPED)

    def charge(self) -> None:
        """Count a failed attempt."""
        self.attempts += 1

    def run_handler(self, handler: bytes) -> None:
        """Note which handler runs for the item. ``handler`` is empty for the handler of the item's record."""
        self.handler = handler

    def doubt(self) -> None:
        """Mark the item as suspect."""
        self.suspect = True

    def take_row(self, number: int) -> None:
        """Note the number of the waiting row that keeps the record from now on; ``NO_ROW`` if no row keeps it."""
        self.row = number


@dataclass(slots=True, eq=False)
class Deadline(Item):
    """An item without a record: for an endpoint whose deadline has passed, or for one handler of a timer or an error."""


@dataclass(slots=True, eq=False)
class Recorded(Item):
    """An item made from a record. It keeps the record's bytes until it is settled."""

    topic: str
    offset: int
    log_time: int
    key: bytes
    trace: bytes
    """The trace context that came with the record; empty if there is none."""
    value: bytes
    accepted: bool = False
    """True after the endpoint has accepted the envelope's number."""
    _kept: tuple[bool, int] = (False, 0)
    """The values of ``accepted`` and ``attempts`` that were last written to the item's row."""

    @property
    def record(self) -> str:
        """Name of the record that the item was made from."""
        return record_name(self.topic, self.offset)

    @property
    def is_changed(self) -> bool:
        """True if ``accepted`` or ``attempts`` has changed since the item's row was written."""
        return self._kept != (self.accepted, self.attempts)

    def accept(self) -> None:
        """Note that the endpoint has accepted the envelope's number, perhaps before the item's turn."""
        self.accepted = True

    def saved(self) -> None:
        """Note that the row of the item has the present values of ``accepted`` and ``attempts``."""
        self._kept = (self.accepted, self.attempts)

    def take_up(self, park: Park) -> None:
        """Note that the item is the head of this park, and was made from the head's row."""
        self.park = park
        self.saved()


@dataclass(slots=True, eq=False)
class Arrival(Recorded):
    """An envelope of the peer."""

    envelope: Envelope = field(kw_only=True)
    pieces: int = field(default=1, kw_only=True)
    """Number of fragments that ``envelope`` was joined from. Then ``value`` is only the last of them."""

    def assemble(self, envelope: Envelope, pieces: int) -> None:
        """Let the last fragment of a message stand for the whole message."""
        self.envelope, self.pieces = envelope, pieces

    def replace(self, envelope: Envelope, value: bytes) -> None:
        """Replace the message by a message with the body that an operator supplied. Its trace context stays."""
        self.envelope, self.value, self.pieces = envelope, value, 1


@dataclass(slots=True, eq=False)
class Order(Recorded):
    """A command of a client, of an operator, or of another partition."""

    command: Command = field(kw_only=True)


class Endpoints(Protocol):
    """The interface to a partition's endpoints, for the objects with the other parts of the partition's state."""

    def find(self, peer_identity: bytes, key: str, origin: str) -> Active:
        """Return one side of a conversation from memory or from its row, else a new ``Active`` without an endpoint."""

    def knows(self, own: bytes) -> bool:
        """Return True if there is or was an endpoint, in memory or in a row."""

    def touch(self, active: Active) -> None:
        """Write the endpoint's row with the next transaction."""


class Lane:
    """The queue of work of one conversation group: its items in order, one handler at a time."""

    __slots__ = ("_items", "_taken", "group", "key", "name", "run")

    def __init__(self, name: tuple[str, str]) -> None:
        self.name = name
        """(origin, key) of the group."""
        self.key = name[1].encode()
        """Record key of the group's endpoints."""
        self._items: list[Any] | None = None
        """The items in order; None if there are none. Most lanes have one item: a list of one takes a tenth of the memory of a deque."""
        self._taken = 0
        """Number of places at the front of ``_items`` whose items are taken out. These places have None."""
        self.run: Any = None
        """The ``scheduler.Run`` that works on the lane, if any."""
        self.group: GroupRow | None = None
        """The group's row; None until it is first read, an empty ``GroupRow`` if the group has no row."""

    def begin(self, steps: Steps) -> Run:
        """Make the run that works on the lane from now on."""
        self.run = run = Run(self, steps)
        return run

    def end(self) -> bool:
        """End the run of the lane; return True if items are left."""
        self.run = None
        if self._items is not None and self._taken < len(self._items):
            return True
        self._items = None
        return False

    def know_group(self, group: GroupRow) -> None:
        """Keep the row of the group; it is empty if the group has no row yet."""
        self.group = group

    def forget_group(self) -> None:
        """Drop the row of the group from memory; it is read again when needed."""
        self.group = None

    # -- items ------------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """Number of items."""
        return 0 if self._items is None else len(self._items) - self._taken

    @property
    def has_items(self) -> bool:
        """True if the lane has items."""
        items = self._items
        return items is not None and self._taken < len(items)

    @property
    def head(self) -> Item:
        """The first item, which is worked on now or next.

        Raises:
            IndexError: the lane has no items.
        """
        item = self.peek()
        if item is None:
            raise IndexError("the lane has no items")
        return item

    def peek(self) -> Item | None:
        """Return the head; None if the lane has no items."""
        items = self._items
        return cast("Item", items[self._taken]) if items is not None and self._taken < len(items) else None

    def rest(self) -> list[Item]:
        """Return all items, the head first."""
        return [] if self._items is None else self._items[self._taken :]

    def put(self, item: Item) -> bool:
        """Put an item at the end; return True if the lane was idle and must be started."""
        items = self._items
        if items is not None and self._taken < len(items):
            items.append(item)
            return False
        self._items = [item]
        self._taken = 0
        return self.run is None

    def put_first(self, item: Item) -> None:
        """Put an item in front of all others."""
        items = self._items
        if items is None or self._taken == len(items):
            self._items = [item]
            self._taken = 0
        elif self._taken:
            self._taken -= 1
            items[self._taken] = item
        else:
            items.insert(0, item)

    def take_head(self) -> None:
        """Take the head out.

        Raises:
            IndexError: the lane has no items.
        """
        items, taken = self._items, self._taken
        if items is None:
            raise IndexError("the lane has no items")
        items[taken] = None  # its bytes are not kept any longer
        self._taken = taken = taken + 1
        if taken >= _COMPACTED and 2 * taken >= len(items):
            del items[:taken]
            self._taken = 0
