"""What an owner holds in memory of an endpoint, a group, and a record on its way through a lane."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Protocol

from conversations.handlers import Side
from conversations.lanes import Run, Steps
from conversations.protocol.command import Command
from conversations.protocol.endpoint import NEVER, Endpoint, prefix_of
from conversations.protocol.envelope import Envelope, Prefix, encode_prefix
from conversations.protocol.partition_row import record_name
from conversations.protocol.rows import QUEUE_ON, GroupRow, ParkRow, Tombstone, encode_constant
from conversations.protocol.sequencing import NONE

NO_ROW = -1


class Active:
    """One side of a conversation while its owner has it in memory; there may be no endpoint (yet)."""

    endpoint: Endpoint
    side: Side
    """The handlers of the service on this side of the contract."""
    out_key: bytes
    """Key of records to the peer."""

    __slots__ = (
        "constant", "endpoint", "entered", "exists", "from_peer", "identity", "lane", "out", "out_key", "out_partition", "out_topic", "scheduled", "side", "tombstone",
    )  # fmt: skip

    def __init__(self, identity: bytes, lane: Lane) -> None:
        self.identity = identity
        self.lane = lane
        self.exists = False
        """True when there is an endpoint, or was until it closed; only then ``endpoint`` and ``side`` may be asked for."""
        self.tombstone: Tombstone | None = None
        self.from_peer: tuple[Prefix, bytes] | None = None
        """The constant beginning of the peer's envelopes, and the same encoded."""
        self.out = b""
        """What this side's envelopes begin with, encoded; empty until needed."""
        self.out_topic = ""
        self.out_partition = NONE
        self.constant = b""
        """Constant part of the state row, encoded; empty until needed."""
        self.scheduled = NEVER
        """The earliest entry for this endpoint in its partition's schedule."""
        self.entered = 0
        """The latest one that is surely there, which need not be made again; 0: none is known."""

    def place(self, endpoint: Endpoint, side: Side, prefix: Prefix | None = None) -> None:
        """Put an endpoint here; ``prefix`` is that of the peer's record that created it, if one did."""
        if prefix is None:
            self.from_peer = None
        elif self.from_peer is None or prefix is not self.from_peer[0]:
            self.learn(prefix, encode_prefix(prefix))
        self.endpoint = endpoint
        self.side = side
        self.exists = True
        self.out_key = endpoint.peer_key.encode()
        self.out = self.constant = b""

    @property
    def key(self) -> bytes:
        """Record key of this side: that of its group."""
        return self.lane.key

    @property
    def is_hollow(self) -> bool:
        """Nothing is known of the conversation here, and nothing is under way: its group is whatever the next record says."""
        return not (self.exists or self.tombstone is not None or self.lane.items or self.lane.run is not None)

    def learn(self, prefix: Prefix, encoded: bytes) -> None:
        """Remember the constant beginning of the peer's envelopes, and its bytes."""
        self.from_peer = prefix, encoded

    def enter(self, deadline: int) -> None:
        """There is an entry for this endpoint, earlier than all others."""
        self.scheduled = deadline
        self.entered = max(self.entered, deadline)

    def restore_entry(self, deadline: int) -> None:
        """The entry of its next deadline was made from the rows, before anybody looked at it."""
        self.scheduled = deadline

    def passed(self, now: int) -> None:
        """An entry of this endpoint was taken out of its partition's schedule."""
        if not now < self.scheduled <= self.entered:  # else its own entry is another, and still there
            self.entered = self.entered if self.entered > now else 0
            self.scheduled = self.entered or NEVER

    def entomb(self, tombstone: Tombstone) -> None:
        """The conversation is over here, or never began: this remembers it."""
        self.tombstone = tombstone

    def route(self, topic: str, partition: int = NONE) -> None:
        """What this side says goes there; it is kept while the partition is not known."""
        self.out_topic, self.out_partition = topic, partition

    def forget_encoded(self) -> None:
        """The constant beginning of its envelopes and of its row has changed."""
        self.out = self.constant = b""

    def restore(self, endpoint: Endpoint, side: Side, constant: bytes) -> None:
        """Put an endpoint here that was decoded from its row."""
        self.place(endpoint, side)
        self.constant = constant

    def out_prefix(self) -> bytes:
        """Encode what this side's envelopes begin with, once."""
        if not self.out:
            self.out = encode_prefix(prefix_of(self.endpoint))
        return self.out

    def row_constant(self) -> bytes:
        """Encode the constant part of the state row, once."""
        if not self.constant:
            self.constant = encode_constant(self.endpoint)
        return self.constant


@dataclass(slots=True, eq=False)
class Park:
    """Something that waits for another attempt: a dialog behind its failed message, or a handler without a message."""

    row: ParkRow
    taken: bool = False
    """Its turn has come: it is in its lane, or about to be."""
    peer: str = ""
    """Whose dialog it is, known once it was in its lane."""
    suspect: bool = False
    """Some of it is from before its partition was opened."""

    @property
    def wakes(self) -> int:
        """When time alone brings its turn; NEVER when it does not."""
        return self.row.due if self.row.due < QUEUE_ON else NEVER

    @property
    def waits_its_turn(self) -> bool:
        """Nothing failed, or it is not known yet: it waits, or waited, for its queue or the brake, or drains."""
        return self.row.due == QUEUE_ON or not self.row.failure

    @property
    def keeps_suspicion(self) -> bool:
        """Whether it may be what ended a process before: it has not had its turn since the partition was opened."""
        return self.suspect and self.waits_its_turn

    def count(self, records: int, size: int) -> None:
        """So many records and bytes more, or fewer if negative, are under the limit."""
        self.row.counted += records
        self.row.counted_size += size

    def add(self, size: int, *, is_end: bool, suspect: bool) -> None:
        """A record was put behind the others."""
        self.row.next += 1
        self.row.size += size
        self.row.ended |= is_end
        self.suspect |= suspect

    def drop_head(self, size: int) -> None:
        """The head is done: the next record has not failed, and nobody has decided about it."""
        self.row.first += 1
        self.row.returns, self.row.returned, self.row.failure, self.row.edited = 0, "", "", ""
        self.row.size -= size

    def replace_head(self, grown: int) -> None:
        """Another record took the place of the head, larger by so many bytes."""
        self.row.size += grown

    def begin(self, now: int) -> None:
        """Another message is the head since now."""
        self.row.since = now

    def fail(self, failure: str, peer: str) -> None:
        """Its head failed, or has to wait for its turn, which is no failure."""
        self.row.failure, self.peer = failure, peer

    def attempted(self, attempts: int) -> None:
        """So often a handler without a message was tried."""
        self.row.attempts = attempts

    def take(self) -> None:
        """Its turn has come."""
        self.taken = True

    def give_back(self, command: str, edited: str) -> None:
        """An operator gave the head back to its handler, with another body if ``edited``."""
        self.row.returns += 1
        self.row.returned = command
        self.row.edited = edited or self.row.edited

    def take_returned(self) -> str:
        """Say, once, which command gave it back; "" if none did."""
        command, self.row.returned = self.row.returned, ""
        return command

    def bring_forward(self, due: int) -> None:
        """Let its turn come by then: a decision about it stays as it is."""
        self.row.due = due

    def wait(self, due: int, now: int) -> None:
        """Let it wait until ``due``; ``NEVER``: until an operator decides; ``QUEUE_ON``: until its queue is on."""
        self.row.due = due
        self.row.ticket = max(self.row.ticket + 1, now)
        self.taken = False


@dataclass(slots=True, eq=False)
class Item:
    """One thing to do in a lane, in its order: an ``Arrival``, an ``Order`` or a ``Deadline``."""

    active: Active
    attempts: int = field(default=0, kw_only=True)
    """How many runs of its handler failed."""
    suspect: bool = field(default=False, kw_only=True)
    """It is from before an unclean start, and must be announced before its handler is called."""
    handler: bytes = field(default=b"", kw_only=True)
    """Which handler without a message runs for it, or is to run again: ``rows.TIMER`` or ``rows.ERROR``."""
    park: Park | None = field(default=None, kw_only=True)
    """The park it was taken up from, to be tried again."""
    row: int = field(default=NO_ROW, kw_only=True)
    """Number of the waiting row that holds its record, once there is one."""

    @property
    def record(self) -> str:
        """Name of the record it was made of; "" of a deadline."""
        return ""

    @property
    def name(self) -> str:
        """What stays the same in every process that takes it up: its record's name, until that is settled."""
        return (not self.handler and self.record) or f"{self.active.identity.hex()}-deadline"

    def charge(self) -> None:
        """One more attempt failed."""
        self.attempts += 1

    def run_handler(self, handler: bytes) -> None:
        """A handler runs for it: that of its record, or one without a message."""
        self.handler = handler

    def doubt(self) -> None:
        """It is from before an unclean start."""
        self.suspect = True

    def take_row(self, number: int) -> None:
        """Its record is kept in this waiting row from now on; ``NO_ROW``: in none."""
        self.row = number


@dataclass(slots=True, eq=False)
class Deadline(Item):
    """Something of an endpoint is due: its deadlines, or the handler of one of them."""


@dataclass(slots=True, eq=False)
class Recorded(Item):
    """An item made of a record, whose bytes are kept as long as it is not settled."""

    topic: str
    offset: int
    log_time: int
    key: bytes
    header: bytes
    value: bytes
    accepted: bool = False
    """The endpoint took the envelope's number already."""
    _kept: tuple[bool, int] = (False, 0)
    """``accepted`` and ``attempts`` as its row has them."""

    @property
    def record(self) -> str:
        """Name of the record it was made of."""
        return record_name(self.topic, self.offset)

    @property
    def is_changed(self) -> bool:
        """Its handler began, or failed, since its row was written."""
        return self._kept != (self.accepted, self.attempts)

    def accept(self) -> None:
        """The endpoint takes the envelope's number, or has taken it early."""
        self.accepted = True

    def saved(self) -> None:
        """Its row is as it is."""
        self._kept = (self.accepted, self.attempts)

    def take_up(self, park: Park) -> None:
        """It is the head of what waits there, made of its row."""
        self.park = park
        self.saved()


@dataclass(slots=True, eq=False)
class Arrival(Recorded):
    """An envelope of the peer."""

    envelope: Envelope = field(kw_only=True)

    def replace(self, envelope: Envelope, header: bytes, value: bytes) -> None:
        """An operator gave the message another body."""
        self.envelope, self.header, self.value = envelope, header, value


@dataclass(slots=True, eq=False)
class Order(Recorded):
    """A command of a client, of an operator, or of another partition."""

    command: Command = field(kw_only=True)


class Endpoints(Protocol):
    """The endpoints of a partition, as the owners of parts of its state see them."""

    def find(self, peer_identity: bytes, key: str, origin: str) -> Active:
        """Return what is known of an endpoint: in memory, in a row, or nothing yet."""

    def knows(self, own: bytes) -> bool:
        """Say whether there is, or was, an endpoint: in memory or in a row."""

    def touch(self, active: Active) -> None:
        """Write the endpoint's row with the next transaction."""


_NOTHING: Any = ()


class Lane:
    """A conversation group at work: its items in order, one handler at a time."""

    __slots__ = ("group", "items", "key", "name", "run")

    def __init__(self, name: tuple[str, str]) -> None:
        self.name = name
        """(origin, key) of the group."""
        self.key = name[1].encode()
        """Record key of the group's endpoints."""
        self.items: deque[Item] = _NOTHING
        """Its items; a deque only while there are some: an empty one takes more memory than all else here."""
        self.run: Any = None
        """The ``lanes.Run`` that works on it, if any."""
        self.group: GroupRow | None = None
        """The group's row once it was asked for; empty when there is none."""

    def begin(self, steps: Steps) -> Run:
        """Let a run work on it from now on."""
        self.run = run = Run(self, steps)
        return run

    def end(self) -> bool:
        """Nothing works on it any more; say whether there is something left to do."""
        self.run = None
        if self.items:
            return True
        self.items = _NOTHING
        return False

    def know_group(self, group: GroupRow) -> None:
        """The row of its group was read, or there is none yet."""
        self.group = group

    def forget_group(self) -> None:
        """The row of its group is read again when it is needed."""
        self.group = None

    def put(self, item: Item) -> bool:
        """Put an item at the end; True when the lane was idle and is to be started."""
        items = self.items
        if items:
            items.append(item)
            return False
        self.items = deque((item,))
        return self.run is None
