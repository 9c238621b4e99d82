"""A queue partition that this worker owns: its endpoints in memory, and the objects with the other parts of its state.

If a partition comes back to a worker, the worker makes a new object from the rows. The old object is **gone**: nothing of it is committed
any more, and results of handlers that still run for it are refused. An old object is never used again. So no generation numbers are needed.

The method ``find`` looks for an endpoint in memory, and then in the rows. After that, the endpoint is in memory. If there are too many
endpoints in memory, whole groups leave memory. If only a part of a group left memory, the group could get a second lane. Then two of its
handlers could run at the same time.

The polling thread, and the runs between two handlers, use this object. They hold ``Context.lock`` while they do.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import TypeVar

from conversations.errors import DeclarationError, InputLost, StateDamaged
from conversations.handlers import unknown_side
from conversations.ports import Positions, Store
from conversations.protocol import rows
from conversations.protocol.endpoint import NEVER
from conversations.protocol.identifiers import uuid_text
from conversations.protocol.partition_row import PartitionRow, decode_decided, decode_partition
from conversations.protocol.states import State
from conversations.protocol.topics import COMMANDS, DECISIONS, QUEUE
from conversations.scheduler import Scheduler
from conversations.worker.active import Active, Lane
from conversations.worker.context import Context
from conversations.worker.groups import Groups
from conversations.worker.growing import Growing
from conversations.worker.letters import Letters
from conversations.worker.outbox import Outbox
from conversations.worker.parking import Parking
from conversations.worker.piece_rows import Pieces
from conversations.worker.progress import Progress
from conversations.worker.queue_input import QueueInput
from conversations.worker.residents import Residents
from conversations.worker.schedule import Schedule
from conversations.worker.successions import Successions
from conversations.worker.suspicion import Suspicion
from conversations.worker.transmission import Transmission
from conversations.worker.unacknowledged import Unacknowledged
from conversations.worker.waiting_rows import Waiting
from conversations.worker.work import Work

log = logging.getLogger("conversations.worker")

R = TypeVar("R")


class Partition:
    """An owned partition of the service's queue."""

    def __init__(self, number: int, context: Context, store: Store, scheduler: Scheduler, growing: Growing) -> None:
        self.number = number
        self.context = context
        self.outbox = Outbox(number, store, context.budget, context.topics.state, context.topics.dead_letter)
        self.progress = Progress()
        self.actives = Residents()
        self.work = Work(number, context.breakdowns, context.stage, scheduler)
        self.schedule = Schedule(context.periods.step)
        self.dirty: dict[Active, None] = {}
        """Endpoints whose rows must be written, in the order in which they changed."""
        self.waiting = Waiting(self.outbox, context.settings.limits.held_messages, growing)
        self.groups = Groups(self.outbox, self.work, self)
        self.letters = Letters(number, context, self.outbox, self.progress, self.schedule, self.waiting.fragments)
        unacknowledged = Unacknowledged(context, self.outbox, self.letters.event)
        successions = Successions(self.outbox, self.schedule)
        self.transmission = Transmission(context, self.outbox, self.waiting, self, unacknowledged, successions)
        self.parking = Parking(number, context, self.outbox, self.progress, self.schedule, self.letters, self.work)
        self.input = QueueInput()
        self.gone = False
        """True after this object is out of use: the results of handlers that still run for it are refused."""

    @property
    def unacknowledged(self) -> Unacknowledged:
        """The envelopes that were transmitted, and that their peers have not acknowledged."""
        return self.transmission.unacknowledged

    @property
    def pieces(self) -> Pieces:
        """The pieces of commands that are not whole yet, or whose messages are not transmitted yet."""
        return self.transmission.pieces

    @property
    def successions(self) -> Successions:
        """The dialogs of the keys of pools."""
        return self.transmission.successions

    def log_fields(self, conversation: bytes = b"") -> dict[str, object]:
        """Return the fields of a log line about this partition, or about a conversation in it."""
        found: dict[str, object] = {"service": self.context.name, "partition": self.number}
        return {"conversation": uuid_text(conversation), **found} if conversation else found

    # -- finding ----------------------------------------------------------------------------------------

    def find(self, peer_identity: bytes, key: str, origin: str) -> Active:
        """Return an endpoint from memory or from its row, else an ``Active`` that has no endpoint yet.

        Args:
            peer_identity: conversation id and the *peer's* side.
            key: this side's key. It is used only if the endpoint does not exist yet.
            origin: the origin of the endpoint's group, which is the peer service that began the dialog, or "" for this service. It is
                used only if the endpoint does not exist yet.
        """
        active = self.actives.get(peer_identity)
        if active is not None and (
            not key or self.work.lanes.get((origin, key)) is active.lane or not active.is_hollow
        ):
            return active
        own = rows.other_side(peer_identity)
        row = self.outbox.read(rows.ENDPOINT + own)
        if row is None:
            active = Active(own, self.work.lane(origin, key))
        elif rows.is_tombstone(row):
            tombstone = self.outbox.decoded(rows.ENDPOINT + own, rows.decode_tombstone, row)
            active = Active(own, self.work.lane(tombstone.origin, tombstone.key))
            active.entomb(tombstone)
        else:
            active = self._load(own, row)
        self.actives[peer_identity] = active
        return active

    def knows(self, own: bytes) -> bool:
        """Return True if memory or a row has the endpoint, open or closed."""
        active = self.actives.get(rows.other_side(own))
        return (active is not None and active.exists) or self.outbox.read(rows.ENDPOINT + own) is not None

    def _load(self, own: bytes, row: bytes) -> Active:
        service = self.context.name
        endpoint, constant = self.outbox.decoded(
            rows.ENDPOINT + own, lambda data: rows.decode_endpoint(own, data, service), row
        )
        active = Active(own, self.work.lane(endpoint.origin, endpoint.key))
        side = self.context.sides.get((endpoint.contract, endpoint.initiator))
        if side is None:
            # Only a temporary service may have a dialog under a contract that it does not declare.
            side = unknown_side(endpoint.contract, endpoint.initiator)
        wake = rows.wake_of(row)
        if self.context.destinations.may_lose(endpoint.peer):
            endpoint.cross(wake)
        if self.progress.opened_at < wake < NEVER:
            endpoint.wait_until(wake)  # what waited before this owner opened the partition begins its wait anew
        active.restore(endpoint, side, constant)
        retries = self.parking.retries
        endpoint.resume(
            self.waiting.held_numbers(own) if endpoint.resend_at != NEVER else set(),
            firing=retries.timers(own),
            told_of_error=own + rows.ERROR in retries,
        )
        active.restore_entry(self.parking.wake_time(active))
        return active

    def make_room(self, limit: int, *, committed: bool) -> None:
        """Remove endpoints from memory until ``limit`` are left. Endpoints that are busy or not committed stay, even above the limit."""
        self.groups.forget_large()
        if not self.gone:
            self.actives.make_room(limit, self.groups.leave_memory, busy=self._uncommitted, committed=committed)

    def _uncommitted(self) -> set[Lane]:
        """Return the lanes of groups whose rows must be written with the next transaction."""
        return {*self.groups.changed, *(active.lane for active in self.dirty)}

    # -- work for the next step -------------------------------------------------------------------------

    def is_busy(self) -> bool:
        """Return True if some work is not finished. The next step continues it."""
        transmission = self.transmission
        return bool(self.parking.is_draining or self.work.is_busy or transmission.returning or transmission.releases())

    def take_dirty(self) -> Iterable[Active]:
        """Return the endpoints whose rows must be written now, and clear this list."""
        dirty, self.dirty = self.dirty, {}
        return dirty

    def touch(self, active: Active) -> None:
        """Write the endpoint's row with the next transaction."""
        self.dirty[active] = None

    # -- time -----------------------------------------------------------------------------------------

    def look_in_time(self, active: Active) -> None:
        """Schedule the endpoint for its next deadline, unless the schedule has an entry for this time or an earlier time."""
        deadline = self.parking.wake_time(active) if self.parking.waits else active.endpoint.next_deadline()
        if deadline < active.scheduled:
            self.schedule.enter(active, deadline)

    def next_deadline(self) -> int:
        """Return the next time at which something may be due; ``NEVER`` if there is no such time."""
        soonest, probe = self.schedule.next(), self.context.brakes.next_probe
        return probe if soonest is None else min(soonest, probe)

    def pop_due(self, now: int) -> Iterator[Active]:
        """Yield endpoints whose deadline has passed, at most ``settings.batch`` of them."""
        for own in self.schedule.take(now, self.context.settings.batch):
            active = self.find(rows.other_side(own), "", "")
            if not active.exists:
                if active.tombstone is None:
                    del self.actives[rows.other_side(own)]  # no endpoint exists any more, and its key is unknown
                continue
            active.passed(now)
            if self.parking.wake_time(active) <= now or self.successions.is_due(active.endpoint, now):
                yield active
            elif active.endpoint.state is not State.CLOSED:
                self.look_in_time(active)

    def wake(self) -> None:
        """Give a turn to every endpoint that has something due: a parked message, or a deadline."""
        self.parking.take_turns(self.find)
        now = self.context.now
        if self.next_deadline() > now:
            return
        for active in self.pop_due(now):
            self.parking.take_due(active)
            if active.endpoint.next_deadline() <= now or self.successions.is_due(active.endpoint, now):
                # The lane of the endpoint handles this deadline, and schedules the next deadline.
                self.work.fall_due(active)
            else:
                self.look_in_time(active)
            if self.context.budget.is_read():
                return  # the other deadlines stay in the schedule

    def is_open(self, own: bytes) -> bool:
        """Return True if the endpoint exists and is not closed."""
        active = self.actives.get(rows.other_side(own))
        if active is not None:
            return active.exists and active.endpoint.state is not State.CLOSED
        row = self.outbox.read(rows.ENDPOINT + own)
        return row is not None and not rows.is_tombstone(row)

    # -- opening ----------------------------------------------------------------------------------------

    def restored_row(self) -> PartitionRow | None:
        """Return the partition's row as it was restored, None if it has none.

        Raises:
            StateDamaged: the row cannot be decoded.
        """
        row = self.outbox.read(rows.PARTITION)
        return None if row is None else self.outbox.decoded(rows.PARTITION, decode_partition, row)

    def open(self, row: PartitionRow | None, committed: int | None) -> Positions:
        """Open the partition after its rows are restored; return the positions to read from.

        Args:
            row: the partition's row as it was restored.
            committed: the consumer group's queue offset. The worker does not read from this offset. If it is larger than 0, the partition
                must have a row.

        Raises:
            InputLost: a topic was re-created, the partition's row is missing, or rows are damaged. A person must act.
            DeclarationError: the service has open dialogs under a contract that it does not declare any more.
        """
        ids = self.context.connection.topic_ids()
        topics = self.context.topics
        queue_id, commands_id, decisions_id = ids[topics.queue], ids[topics.commands], ids[topics.decisions]
        if row is None and committed is not None and committed > 0:
            raise InputLost(
                self.number, "the consumer group has an offset, but the state topic has no row of the partition"
            )
        if row is not None:
            self.progress.restore(row)
            if (decided := self.outbox.read(rows.DECIDED)) is not None:
                self.progress.restore_decided(self.outbox.decoded(rows.DECIDED, decode_decided, decided))
            self._check(queue_id, commands_id, decisions_id)
            self.context.clock.heard(self.progress.row.queue_time)
        fresh = row is None
        # Without this row, nothing of the topic has taken effect. So all of it is read.
        is_new = self.outbox.read(rows.DECIDED) is None
        self.progress.belongs_to(queue_id, commands_id, decisions_id, ids[topics.state])
        connection = self.context.connection
        bounds = {kind: connection.end(kind, self.number) for kind in (COMMANDS, DECISIONS)}
        self.progress.open(connection.end(QUEUE, self.number), bounds, self.context.clock.now())
        self.waiting.open(self.progress.opened_at)
        if self.progress.row.unclean_starts:
            suspicion = Suspicion(self.progress.row, self.context.stage, self.context.settings.deaths)
            self.work.doubt(suspicion)
        else:
            self.progress.trust()
        try:
            self._rebuild()
        except (ValueError, IndexError) as error:
            raise StateDamaged(self.number, f"a row of the state cannot be understood: {error}") from error
        if fresh:
            return Positions(None, None, None)
        row_of = self.progress.row
        return Positions(row_of.queue, row_of.commands, None if is_new else self.progress.decided.position)

    def _check(self, queue_id: str, commands_id: str, decisions_id: str) -> None:
        for what, mine, theirs in (
            ("queue", self.progress.row.queue_id, queue_id),
            ("commands", self.progress.row.commands_id, commands_id),
            ("decisions", self.progress.decided.topic_id or decisions_id, decisions_id),
        ):
            if mine != theirs:
                raise InputLost(self.number, f"the {what} topic was re-created: the state belongs to the old topic")
        if self.progress.row.state_version > self.context.service.state.version:
            log.warning(
                "partition %d has state of version %d, and this code has version %d: messages of groups with newer state wait for a "
                "worker of a release with that version",
                self.number, self.progress.row.state_version, self.context.service.state.version,
            )  # fmt: skip

    def _check_declared(self, contract: str, initiator: bool) -> None:
        service = self.context.service
        if (contract, initiator) not in self.context.sides and not service.temporary:
            verb = "initiate" if initiator else "accept"
            raise DeclarationError(
                f"service {service.name!r} has open dialogs under contract {contract!r}, which it does not {verb} any "
                f"more: declare the contract until these dialogs are over"
            )

    def _rebuild(self) -> None:
        """Rebuild the schedule and the counts from the rows. Endpoints are not decoded here, because there may be a million of them."""
        declared: set[tuple[bytes, int]] = set()
        for key, row in self.outbox.store.scan(rows.ENDPOINT):
            wake = rows.wake_of(row)
            if rows.is_tombstone(row):
                self.schedule.tombstones.add(wake, key)
                continue
            side = rows.contract_of(row), key[17]
            if side not in declared:
                self._check_declared(side[0].decode(), side[1] == 1)
                declared.add(side)
            if wake != NEVER:
                self.schedule.deadlines.add(wake, key[1:])
        self.waiting.count_kept()
        self.waiting.fragments.restore()
        self.unacknowledged.count_kept()
        self.successions.restore()
        self.transmission.carried.restore()
        self.transmission.restore()
        for kind, passing in ((rows.COMMAND, self.schedule.commands), (rows.LETTER, self.schedule.letters)):
            for key, row in self.outbox.store.scan(kind):
                passing.add(int.from_bytes(row[:8], "big"), key)
                self.pieces.restore(key, row)
        self.parking.restore()

    def read_to(self) -> int:
        """Return the queue offset up to which everything was read. Transaction markers at the end of the queue count as read."""
        position = self.progress.row.queue
        return position if self.input.is_behind else max(position, self.context.connection.read_to(QUEUE, self.number))

    def has_handled_the_past(self) -> bool:
        """Return True if everything from before the opening of the partition is handled: records, rows, commands and deadlines."""
        return (
            (self.work.suspicion is None or not self.work.suspicion.left)
            and not self.parking.is_draining
            and not self.progress.row.off
            and self.next_deadline() > self.progress.opened_at
            and self.read_to() >= self.progress.row.bound
            and not self.input.is_behind
            and all(self._has_read(kind, bound) for kind, bound in self.progress.bounds.items())
            and not self.parking.keeps_suspicion
        )

    def _has_read(self, kind: str, bound: int) -> bool:
        """Return True if everything before a bound of the commands or of the decisions was read."""
        return max(self.progress.position(kind), self.context.connection.read_to(kind, self.number)) >= bound

    # -- content of the transaction -------------------------------------------------------------------------

    def pending(self) -> bool:
        """Return True if the partition has something for the next transaction."""
        return bool(
            self.progress.is_changed
            or self.dirty
            or self.parking.is_changed
            or self.groups.is_changed
            or not self.outbox.is_empty
        )

    def stop(self) -> None:
        """Refuse the results of handlers that still run for this partition, and close its store."""
        self.gone = True
        self.work.stop()
        self.waiting.fragments.stop()
        self.outbox.store.close()
