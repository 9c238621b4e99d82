"""Parking: a message that failed is kept as a row until it is tried again, and the later messages of its dialog wait in rows behind it.

The rows decide what is parked. A failed message, the **head**, is tried again as an item of its lane. As long as a dialog has parked
rows, each record that arrives for the dialog gets a row behind these rows. These records are the **followers**. So the order of a dialog
never changes, even if another worker becomes the owner. The handler of a timer or of an error has no message. Such a handler waits in a
row of its own, and nothing waits behind it.

Each parked dialog and each waiting handler without a message is a ``Park``. The field ``due`` of its row says what the park waits for:

* a time: the head is tried again as soon as this time has come;
* ``QUEUE_ON``: the queue is off, or the brake is on for the peer. The head is tried as soon as the queue is on and the brake is off. It
  is tried earlier if the brake lets this one message through (``probes``);
* ``NEVER``: an operator decides about the head.

When a park is due, it is **taken**: its head is put into the lane of the dialog. When the head is finished, its row is deleted. The next
record becomes the head, and is put into the lane at once. One step of a partition takes up a limited number of records, of each dialog its share (``turns``).
If the head fails again, the park waits again. The park ends when its last row is deleted.

**Order** is kept by three rules:

* A record that arrives for a parked dialog is appended behind the other rows of the dialog. No handler is called for it before its turn.
* The head is put at the end of the dialog's own lane. The followers come one by one, each when the record before it is finished.
* A head that fails again keeps its number, so nothing is ever moved in front of it.

**Crashes** need no special code. A row is written in the transaction in which its record begins to wait. It is deleted in the transaction
that has the record's result. If a process dies in between, the row remains, and the next owner takes it up when it is due. An operator's
decision is a command, and takes effect in one transaction with the rows that it changes. Each wait gets a larger **ticket** than the wait
before. A decision may contain the ticket that the operator saw. Then the decision is refused if the head was tried after that.

**Suspicion.** A record that was parked before an unclean start may have killed the last process, if the record was in its lane when the
process died. A park that waits for a time or for an operator is not suspect, because the failure of its head was committed. A park that
only waits for its turn is suspect. A head that an operator gives back is tried in the step of the decision. If the process dies of it, the
decision is read again and is suspect, and under suspicion the head has its own turn after the decision.

There are three counts of parked bytes. ``bytes`` is the size of all parked records. ``counted_bytes`` is the size of the followers of
failed messages. There is a limit for it (``is_full``). ``braked_bytes`` is the size of the records that wait for the brake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeGuard

from conversations.errors import StateDamaged
from conversations.protocol import letters, rows
from conversations.protocol.contract import END_OF_STREAM
from conversations.protocol.endpoint import NEVER
from conversations.protocol.envelope import Kind
from conversations.protocol.events import Outcome, Returned
from conversations.protocol.park_row import QUEUE_ON, ParkRow, decode_park, encode_park
from conversations.protocol.waiting_row import decode_waiting
from conversations.worker.active import Active, Arrival, Deadline, Item, Park
from conversations.worker.context import Context
from conversations.worker.letters import Letters
from conversations.worker.outbox import Outbox
from conversations.worker.progress import Progress
from conversations.worker.records import arrival_of, encode_item
from conversations.worker.retries import Retries
from conversations.worker.schedule import Schedule
from conversations.worker.turns import Turns, key_of
from conversations.worker.work import Work

HANDLED, FAILED, ENDED, DECIDED = Outcome
"""Outcomes of a message or handler that an operator gave back.

ENDED: the dialog ended first, or its timer was set again or has no handler any more. DECIDED: an operator decided again.
"""
FAILURE_LIMIT = 200
"""Maximum number of characters of an exception's text in a park's row. It is small, because the texts of all parks are in memory."""


class Parking:
    """The parked dialogs and waiting handlers of one partition.

    The rows of the parks are in memory. The rows of the parked records are only in the store and in flights, until a record is taken up.
    """

    __slots__ = (
        "_changed",
        "_context",
        "_letters",
        "_number",
        "_outbox",
        "_progress",
        "_schedule",
        "_turns",
        "_work",
        "braked_bytes",
        "bytes",
        "counted_bytes",
        "parks",
        "retries",
    )  # fmt: skip

    def __init__(
        self, number: int, context: Context, outbox: Outbox, progress: Progress, schedule: Schedule, letters: Letters, work: Work,
    ) -> None:  # fmt: skip
        self._number = number
        self._context = context
        self._outbox = outbox
        self._progress = progress
        self._schedule = schedule
        self._letters = letters
        self._work = work
        self.parks: dict[bytes, Park] = {}
        """Parked dialogs, by the identity of their endpoint."""
        self.retries = Retries()
        self._changed: set[bytes] = set()
        """Keys of the parks' rows that must be written."""
        self._turns = Turns(outbox, context.settings.concurrency)
        self.bytes = self.counted_bytes = self.braked_bytes = 0
        """Bytes of all parked records, of the records behind a failure, and of the records that wait for the brake."""

    def restore(self) -> None:
        """Rebuild the parks from their rows.

        Only the parks come into memory. Their parked records stay in the store. So a failure with thousands of records behind it needs
        only one object.
        """
        for kind, parks in ((rows.PARK, self.parks), (rows.RETRY, self.retries)):
            for key, row in self._outbox.store.scan(kind):
                park = parks[key[1:]] = Park(decode_park(row), suspect=True)
                self.bytes += park.row.size
                self.counted_bytes += park.row.counted_size
                if park.row.due == QUEUE_ON and not self._progress.row.off:
                    # The park is due now. The earlier of these two times is in the past, even if the machine's clock is wrong.
                    park.bring_forward(min(self._progress.opened_at, self._progress.row.queue_time))
                if park.wakes != NEVER:
                    self._schedule.deadlines.add(park.wakes, key[1:18])

    # -- time -----------------------------------------------------------------------------------------------------------

    def wake_time(self, active: Active) -> int:
        """Return the next deadline of an endpoint and its parks; ``NEVER`` if there is none."""
        soonest = active.endpoint.next_deadline()
        if not self.parks and not self.retries:
            return soonest
        own = active.identity
        found = self.parks.get(own), *(self.retries.get(own + handler) for handler in self.retries.handlers(own))
        return min([soonest, *(park.wakes for park in found if park is not None and not park.taken)])

    def _look_in_time(self, active: Active) -> None:
        """Schedule the endpoint for its next deadline, unless the schedule has an entry for this time or an earlier time."""
        deadline = self.wake_time(active)
        if deadline < active.scheduled:
            self._schedule.enter(active, deadline)

    def release(self, now: int) -> None:
        """Make parks due now: all parks that wait for the queue, or for a brake that is off again.

        Each step takes a limited number of parks from the schedule. So no transaction is too large, even after weeks with the queue off.
        """
        braked = self._context.brakes.peers
        for parks in (self.parks, self.retries):
            for name, park in parks.items():
                if park.row.due == QUEUE_ON and park.peer not in braked:
                    self.probe(name, park, now)

    def probe(self, name: bytes, park: Park, now: int) -> None:
        """Make a park due now, and schedule its endpoint."""
        park.bring_forward(now)
        self._schedule.deadlines.add(now, name[:17])

    def holds_back(self, peer: str) -> bool:
        """Return True if the messages of a peer must wait: the queue is off, or the worker's brake is on for the peer."""
        return bool(self._progress.row.off) or peer in self._context.brakes.peers

    @property
    def waits(self) -> bool:
        """True if the partition has parks."""
        return bool(self.parks or self.retries)

    @property
    def is_draining(self) -> bool:
        """True if the next step has more parked records to take up."""
        return self._turns.waits

    @property
    def is_changed(self) -> bool:
        """True if rows of parks must be written."""
        return bool(self._changed)

    @property
    def keeps_suspicion(self) -> bool:
        """True if a park from before the partition was opened has not had its turn."""
        return any(park.keeps_suspicion for parks in (self.parks, self.retries) for park in parks.values())

    # -- a failure --------------------------------------------------------------------------------------------------------

    def park(self, item: Arrival, due: int, failure: str) -> None:
        """Park a message, and its dialog with it, until ``due``: a time, ``QUEUE_ON``, or ``NEVER`` for an operator's decision.

        The first failure in a dialog makes a new park, whose head is the message. If the head of a park fails again, the head's row is
        written again, because the number of attempts has changed.
        """
        own, found = item.active.identity, item.park
        if found is None:
            found = self.parks[own] = Park(ParkRow(since=self._context.now, failure=failure))
            self.append(found, item)
        else:
            if not found.row.failure:  # this message is a new head: it has not failed before
                found.begin(self._context.now)
            self._outbox.write(key_of(own, found.row.first), encode_item(item))
        self._wait(item.active, found, due, failure)
        self._changed.add(rows.PARK + own)
        self._show(item, found)

    def _show(self, item: Arrival, found: Park) -> None:
        """Append a record to a retry topic. Of the topics whose delay is not longer than the wait, take the topic with the longest delay.

        This record shows the wait to people and to pipelines. Workers do not read the record: they use the row.
        """
        wait = found.row.due - self._context.now
        topic = next((topic for delay, topic in self._context.topics.retries if delay <= wait), None)
        if topic is not None and found.wakes != NEVER:
            self._outbox.produce(
                (topic, self._number, item.key, item.value, self._letters.retry_headers(item, found.row))
            )

    def postpone(self, item: Item, due: int, failure: str) -> None:
        """Let a handler without a message wait: the handler of a timer or of an error."""
        active = item.active
        key = active.identity + item.handler
        found = self.retries.get(key)
        if found is None:
            skipped = sorted(item.envelope.skipped) if isinstance(item, Arrival) else []
            row = ParkRow(since=self._context.now, skipped=skipped)
            found = self.retries[key] = Park(row, suspect=item.suspect)
        found.attempted(item.attempts)
        self._wait(active, found, due, failure)
        self._changed.add(rows.RETRY + key)

    def skipped_too(self, active: Active, numbers: Iterable[int]) -> bool:
        """Add numbers of skipped messages to the handler that waits for another attempt; return False if no such handler waits."""
        if (found := self.retries.get(active.identity + rows.SKIPPED)) is not None:
            found.add_skipped(numbers)
            self._changed.add(rows.RETRY + active.identity + rows.SKIPPED)
        return found is not None

    def let_wait(self, item: Item, handler: bytes, due: int, failure: str) -> None:
        """Let a handler wait. If it has a message, park the message and its dialog."""
        if has_message(item, handler):
            self.park(item, due, failure)
        else:
            self.postpone(item, due, failure)

    def _wait(self, active: Active, found: Park, due: int, failure: str) -> None:
        """Let a park wait until ``due``, and keep the text of the failure. A long text is cut, because it stays in memory.

        Each wait gets a new ticket, so that an operator's decision about an earlier wait is refused.
        """
        self._context.counts.traffic.count_parked()
        found.fail(failure[:FAILURE_LIMIT], active.endpoint.peer)
        found.wait(due, self._context.now)
        self._look_in_time(active)

    # -- what arrives meanwhile ---------------------------------------------------------------------------------------------

    def append(self, found: Park, item: Arrival) -> None:
        """Put a record behind the parked records of its dialog. An END waits for its turn, too; a second END is a duplicate.

        Only records behind a failed head count towards the limit. The head does not count. A record that waits for the queue or the brake
        does not count either, because its dialog has not failed.
        """
        row, own, endpoint, size = found.row, item.active.identity, item.active.endpoint, len(item.value)
        is_end = item.envelope.kind is Kind.END
        if is_end:
            endpoint.end_waits(item.envelope.seq, self._context.now)
            if row.ended:
                self._context.counts.count_duplicate()
                return
        self._outbox.write(key_of(own, row.next), encode_item(item))
        found.add(size, is_end=is_end, suspect=item.suspect)
        self.bytes += size
        self.braked_bytes += size * (endpoint.peer in self._context.brakes.peers)
        if row.next > row.first + 1 and not self.holds_back(endpoint.peer) and not found.waits_its_turn:
            self._count(found, 1, size)
        self._changed.add(rows.PARK + own)

    def _count(self, found: Park, records: int, size: int) -> None:
        """Add to the numbers of records and bytes behind failed messages. These numbers have a limit. Negative numbers subtract."""
        found.count(records, size)
        self.counted_bytes += size

    def is_full(self, found: Park) -> bool:
        """Return True if too much is parked: in this dialog, or in the whole partition.

        Some records have no limit here: they wait for the queue or the brake, or this wait is over and they wait for their turn. For these
        records, the queue's input pauses instead. There is one exception. As long as messages of other peers are handled, the input does not pause for records that wait
        for the brake. Then there is a limit for ``braked_bytes``.
        """
        brakes = self._context.brakes
        if found.peer in brakes.peers and not self._progress.row.off and brakes.others_go_on:
            return self.braked_bytes > self._context.settings.limits.parked_bytes
        if self.holds_back(found.peer) or found.waits_its_turn:
            return False
        limits = self._context.settings.limits
        return found.row.counted > limits.parked_messages or self.counted_bytes > limits.parked_bytes

    def in_the_way(self, *, is_paused: bool) -> int:
        """Return the parked bytes that may make the queue's input pause; also count ``braked_bytes`` anew.

        These are the bytes of parks that only wait for their turn. Parks whose head has failed are left out, because each of them has its
        own limit, and may wait for weeks. Parks that wait for the brake are left out as long as messages of other peers are handled,
        because a pause would stop these peers as well. Instead, there is a limit for ``braked_bytes`` (``is_full``). If at most half of
        the setting ``parked_bytes`` is parked, the result is 0, and the parks are not counted one by one.
        """
        limit, brakes = self._context.settings.limits.parked_bytes, self._context.brakes
        self.braked_bytes = 0
        if self.bytes <= limit // 2:
            return 0
        waiting = [park for park in self.parks.values() if park.waits_its_turn]
        parked = sum(park.row.size for park in waiting)
        if not brakes.peers or self._progress.row.off:
            return parked
        self.braked_bytes = sum(park.row.size for park in waiting if park.peer in brakes.peers)
        is_at_limit = parked > limit and not is_paused
        if brakes.others_go_on or (is_at_limit and self._knows_another()):
            parked -= self.braked_bytes
        return parked

    def _knows_another(self) -> bool:
        """Return True if this partition has a dialog with a peer that the brakes do not know yet. Messages of this peer may succeed.

        From then on, the brakes treat this peer as if its last handler had succeeded, until a handler in one of its dialogs fails.
        """
        well = self._context.brakes.well
        for _, row in self._outbox.store.scan(rows.ENDPOINT):
            if not rows.is_tombstone(row) and (peer := rows.peer_of(row)) not in well:
                self._context.brakes.hear(peer, is_well=True)
                return True
        return False

    # -- its turn -----------------------------------------------------------------------------------------------------------

    def take_turns(self, find: Callable[[bytes, str, str], Active]) -> None:
        """Begin a new slice, and take up parked dialogs that earlier steps put off. These dialogs come before all others."""
        self._turns.begin()
        while not self._context.budget.is_spent() and (turn := self._turns.next()) is not None:
            own, found = turn
            if self.parks.get(own) is found and self._turns.allot(own, found, goes_on=False):
                self._take_up(find(rows.other_side(own), "", ""), found)

    def take_due(self, active: Active) -> None:
        """Take up the parks of an endpoint that are due: its parked dialog, and its handlers without a message."""
        now = self._context.now
        found = self.parks.get(active.identity)
        if found is not None and not found.taken and found.row.due <= now:
            found.take()
            self._take(active, found)
        for handler in self.retries.handlers(active.identity):
            again = self.retries.get(active.identity + handler)
            if again is not None and not again.taken and again.row.due <= now:
                again.take()
                item = Deadline(active, handler=handler, attempts=again.row.attempts, park=again)
                self._work.suspect(item)
                self._work.enqueue(active.lane, item)

    def _take(self, active: Active, found: Park, head: Arrival | None = None, *, goes_on: bool = False) -> None:
        """Take up a park. If the step has taken up enough already, put the park off: it waits for its turn in a later step.

        A head that was read for an operator's decision does not count: the step has no more of these than decisions.
        """
        own = active.identity
        may_go_on = not self._context.budget.is_spent()
        if may_go_on and (head is not None or self._turns.allot(own, found, goes_on=goes_on)):
            self._take_up(active, found, head)
        else:
            self._turns.put_off(own, found, goes_on=goes_on)

    def _take_up(self, active: Active, found: Park, head: Arrival | None = None) -> None:
        """Put the head of a park at the end of its lane. The head is read from its row, unless the caller has read it."""
        item = self.head(active, found) if head is None else head
        self._context.budget.spend(len(item.value))  # the record is in memory now, and is written again if it fails
        item.take_up(found)
        self._work.suspect(item)
        self._work.follow(active.lane, item)

    def is_stale(self, item: Item) -> bool:
        """Return True if the park of an item does not exist any more: its dialog ended, or an operator decided about its handler."""
        if item.park is None:
            return False
        own = item.active.identity
        found = self.retries.get(own + item.handler) if isinstance(item, Deadline) else self.parks.get(own)
        return found is not item.park

    def head_done(self, item: Item) -> None:
        """Finish a parked item that has had its turn: delete its row, and take up the next record.

        If the item failed again, its park waits and is not ``taken`` any more. Then this method does nothing.
        """
        active, found = item.active, item.park
        if found is None or not found.taken or not isinstance(item, Arrival) or self.is_stale(item):
            return
        self.returned(found, HANDLED)
        self._drop_head(found, item)
        if active.identity in self.parks:
            self._take(active, found, goes_on=True)

    def _drop_head(self, found: Park, item: Arrival) -> None:
        """Delete the head's row. The next record becomes the head; if there is none, the park ends."""
        row, own, size = found.row, item.active.identity, len(item.value)
        self._outbox.write(key_of(own, row.first), None)
        found.drop_head(size)
        self.bytes -= size
        self._count(found, -min(row.counted, 1), -min(row.counted_size, size))
        if row.first == row.next:
            self._drop(self.parks, rows.PARK, own)
            return
        self._changed.add(rows.PARK + own)

    def keep(self, item: Item) -> None:
        """Write the row of a head again if the head has changed since the row was written.

        A step may be closed while the head is still in its lane. If the process dies after that, the row has the right number of attempts.
        """
        if (found := item.park) is None or not isinstance(item, Arrival) or self.is_stale(item) or not item.is_changed:
            return
        item.saved()
        self._outbox.write(key_of(item.active.identity, found.row.first), encode_item(item))

    # -- decisions of an operator ---------------------------------------------------------------------------------------------

    def head(self, active: Active, found: Park) -> Arrival:
        """Return the head of a parked dialog, made from its row.

        Raises:
            StateDamaged: the head's row is missing, or cannot be decoded.
        """
        key = key_of(active.identity, found.row.first)
        row = self._turns.read(found, key)
        if row is None:
            raise StateDamaged(self._number, f"the parked row {key.hex()} is missing")
        kept = self._outbox.decoded(key, decode_waiting, row)
        return arrival_of(active, kept, self._turns.decoded(found, kept.value))

    def try_now(self, active: Active, found: Park, key: bytes, head: Arrival | None = None) -> None:
        """Make a park due now and give it a new ticket, no matter what the park waits for. ``key`` is the key of its row.

        A ``head`` that the caller has read is put into its lane at once. Else the next step takes the park up.
        """
        found.wait(self._context.now, self._context.now)
        self._changed.add(key)
        if head is None:
            self._look_in_time(active)
        else:
            found.take()
            self._take(active, found, head)

    def replace_head(self, found: Park, item: Arrival) -> None:
        """Write the row of the failed message again, with the body that an operator has edited."""
        grown = len(item.value) - len(self.head(item.active, found).value)
        self._outbox.write(key_of(item.active.identity, found.row.first), encode_item(item))
        found.replace_head(grown)
        self.bytes += grown

    def skip_head(self, found: Park, item: Arrival) -> None:
        """Drop the failed message. The next record, if any, is due now."""
        active = item.active
        self._drop_head(found, item)
        if active.identity in self.parks:
            self.try_now(active, found, rows.PARK + active.identity)

    def returned(self, found: Park, outcome: str) -> None:
        """Report the outcome of a message that an operator gave back to its handler. The outcome is reported only one time."""
        if command := found.take_returned():
            self._letters.event(Returned(command, outcome))

    # -- the end of the dialog ------------------------------------------------------------------------------------------------

    def close(self, active: Active) -> None:
        """End the parks of a dialog that ended or broke. Parked messages become dead letters, except a head that is being handled now."""
        for handler in self.retries.handlers(active.identity):
            self.forget_retry(active, handler, ENDED)
        if (found := self.parks.get(active.identity)) is None:
            return
        row = found.row
        running = _is_running(active, found)
        self.returned(found, HANDLED if running else ENDED)
        for number in range(row.first, row.next):
            key = key_of(active.identity, number)
            data = self._outbox.read(key)
            self._outbox.write(key, None)
            if data is not None and not (running and number == row.first):
                item = arrival_of(active, self._outbox.decoded(key, decode_waiting, data))
                self._settle(item, row.failure if number == row.first else "")
        self.bytes -= row.size
        self.braked_bytes -= row.size * (found.peer in self._context.brakes.peers)
        self._drop(self.parks, rows.PARK, active.identity)

    def _settle(self, item: Arrival, failure: str) -> None:
        """Settle a parked record of a dialog that is over: a message becomes a dead letter, and the peer's END is accepted.

        The number of the message is accepted already, so the peer does not send the message again. The parked bytes are its only copy.
        ``failure`` is the last failure of its handler; it is empty if the handler did not fail.
        """
        endpoint, envelope = item.active.endpoint, item.envelope
        if envelope.message_type == END_OF_STREAM:
            endpoint.finished()  # it asked this side to end
        elif envelope.kind is Kind.MESSAGE:
            self._letters.dead_letter(item, letters.PARKED_AT_END, why=failure)
            endpoint.gave_up_on()
        elif not item.accepted:
            # The record is the peer's END, and its turn never came. This side is over as well, so it accepts the END now.
            endpoint.receive(envelope, self._context.now, self._context.settings.limits.held_messages)

    def forget_retry(self, active: Active, handler: bytes, outcome: str) -> None:
        """Drop the park of a handler without a message: the handler has run, or must not run any more."""
        if (found := self.retries.get(active.identity + handler)) is not None:
            self.returned(found, outcome)
            self._drop(self.retries, rows.RETRY, active.identity + handler)

    def _drop(self, parks: dict[bytes, Park], kind: bytes, name: bytes) -> None:
        """Delete a park and its row, and subtract its records from the counts for the limit."""
        found = parks.take(name) if isinstance(parks, Retries) else parks.pop(name)
        self._count(found, -found.row.counted, -found.row.counted_size)
        self._changed.discard(kind + name)
        self._outbox.write(kind + name, None)

    # -- rows -----------------------------------------------------------------------------------------------------------------

    def encode_changed(self) -> None:
        """Write the rows of changed parks with the next transaction."""
        for key in self._changed:
            parks = self.parks if key.startswith(rows.PARK) else self.retries
            self._outbox.write(key, encode_park(parks[key[1:]].row))
        self._changed.clear()


def has_message(item: Item, handler: bytes) -> TypeGuard[Arrival]:
    """Return True if a handler belongs to a message or to the peer's END. Then the dialog can wait behind this item."""
    return isinstance(item, Arrival) and item.accepted and not handler


def _is_running(active: Active, found: Park) -> bool:
    """Return True if the head of a park is being handled now. Then the result of its handler decides about the head."""
    return active.lane.has_items and active.lane.head.park is found
