"""Dialogs whose message failed: the message and what arrives behind it wait in rows until it is tried again.

The rows are the truth. A failed message, the **head**, is tried again in place, as an item of its lane. As long as a dialog has any
such row, everything that arrives for it is added behind, so that its order cannot change under another owner. A
handler without a message (of a timer, of an error) waits in a row of its own, with nothing behind it.

Each wait is a ``Park``, with one of three ends:

* a time: the head is taken up once it has come;
* ``QUEUE_ON``: the queue is off, or the brake is on for the peer; nothing failed, or nobody knows yet;
* ``NEVER``: an operator decides.

A park that is taken up is **taken**: its head is in its lane, or about to be. When the head is done the next follows, and at most
``SLICE`` of them in one step. The park is over with its last row.

**Order** is kept by three rules. A record of a parked dialog is appended behind the others before anything else is done with it. A head is
taken up as an item of the dialog's own lane, behind whatever the lane has to do, and its followers come one by one, each when the one
before it is done. And a head that fails again keeps its number: nothing is ever moved in front of it.

**Crashes** need no care of their own. A row is written in the transaction that lets its record wait, and deleted in the one that carries
its result. A process that dies in between leaves the row, and the next owner takes it up at its time. What an operator decides is a
command, and takes effect in one transaction with the rows it changes. A **ticket** that grows with each wait tells an operator who looked
before the last attempt that the decision comes too late.

**Suspicion.** What waits since before an unclean start may be what ended the last process, but only if it had its turn. A park that waits
for time, or for an operator, is not suspect: its failure was committed. One that only waits for its turn is.

What waits is counted three times. ``bytes`` is everything. ``counted_bytes`` is the part under the limit: records behind a failure.
``braked_bytes`` is the part that waits for the brake.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeGuard

from conversations.errors import StateDamaged
from conversations.protocol import letters, rows
from conversations.protocol.endpoint import NEVER
from conversations.protocol.envelope import Kind
from conversations.protocol.events import Outcome, Returned
from conversations.worker.active import Active, Arrival, Deadline, Item, Park
from conversations.worker.context import Context
from conversations.worker.letters import Letters
from conversations.worker.outbox import Outbox
from conversations.worker.progress import Progress
from conversations.worker.records import arrival_of, encode_item
from conversations.worker.schedule import Schedule
from conversations.worker.work import Work

SLICE = 1_000
"""Parked records taken up by one step of a partition at most."""
HANDLED, FAILED, ENDED, DECIDED = Outcome
"""What may become of something that was given back: its dialog may end before, or somebody decide about it again."""
FAILURE_LIMIT = 200
"""Characters of an exception's text in a row; every parked dialog has its text in memory."""


class Parking:
    """The parked dialogs and waiting handlers of one partition."""

    __slots__ = (
        "_changed",
        "_context",
        "_draining",
        "_letters",
        "_number",
        "_outbox",
        "_progress",
        "_schedule",
        "_slice_left",
        "_work",
        "braked_bytes",
        "bytes",
        "counted_bytes",
        "parks",
        "retries",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        context: Context,
        outbox: Outbox,
        progress: Progress,
        schedule: Schedule,
        letters: Letters,
        work: Work,
    ) -> None:
        self._number = number
        self._context = context
        self._outbox = outbox
        self._progress = progress
        self._schedule = schedule
        self._letters = letters
        self._work = work
        self.parks: dict[bytes, Park] = {}
        """Dialogs that wait for a failed message, by identity."""
        self.retries: dict[bytes, Park] = {}
        """Handlers without a message that failed and are tried again later, by identity and ``rows.TIMER`` or ``ERROR``."""
        self._changed: set[bytes] = set()
        """Keys of the rows of these that are to be written."""
        self._draining: list[tuple[bytes, Park]] = []
        """Parked dialogs whose next message is to be taken up by the next step."""
        self._slice_left = 0
        """Parked records this step may still take up."""
        self.bytes = self.counted_bytes = self.braked_bytes = 0
        """Bytes of all parked records; of the records under the limit; of the records that wait for the brake."""

    def restore(self) -> None:
        """Rebuild the parks from their rows.

        Only the parks come into memory, not the records behind them: thousands of records behind one failure cost one object.
        """
        for kind, parks in ((rows.PARK, self.parks), (rows.RETRY, self.retries)):
            for key, row in self._outbox.store.scan(kind):
                park = parks[key[1:]] = Park(rows.decode_park(row), suspect=True)
                self.bytes += park.row.size
                self.counted_bytes += park.row.counted_size
                if park.row.due == rows.QUEUE_ON and not self._progress.row.off:
                    # Now, whatever the machine's clock says.
                    park.bring_forward(min(self._progress.opened_at, self._progress.row.queue_time))
                if park.wakes != NEVER:
                    self._schedule.deadlines.add(park.wakes, key[1:18])

    # -- time -----------------------------------------------------------------------------------------------------------

    def wake_time(self, active: Active) -> int:
        """When something of an endpoint is due next."""
        soonest = active.endpoint.next_deadline()
        if not self.parks and not self.retries:
            return soonest
        own = active.identity
        found = self.parks.get(own), self.retries.get(own + rows.TIMER), self.retries.get(own + rows.ERROR)
        return min([soonest, *(park.wakes for park in found if park is not None and not park.taken)])

    def _look_in_time(self, active: Active) -> None:
        """Make sure the endpoint is looked at when its next attempt is due."""
        deadline = self.wake_time(active)
        if deadline < active.scheduled:
            self._schedule.enter(active, deadline)

    def release(self, now: int) -> None:
        """Give everything its turn that waits for the queue to be on, or for a brake that is not on any more.

        The turns come by the schedule, a slice in each step, so that a queue that was off for weeks does not fill one transaction.
        """
        braked = self._context.brakes.peers
        for parks in (self.parks, self.retries):
            for name, park in parks.items():
                if park.row.due == rows.QUEUE_ON and park.peer not in braked:
                    self.probe(name, park, now)

    def probe(self, name: bytes, park: Park, now: int) -> None:
        """Let a park be taken up now, as if its time had come."""
        park.bring_forward(now)
        self._schedule.deadlines.add(now, name[:17])

    def holds_back(self, peer: str) -> bool:
        """Say whether no handler is called of a peer's dialogs: the queue is off, or the worker's brake is on for it."""
        return bool(self._progress.row.off) or peer in self._context.brakes.peers

    @property
    def waits(self) -> bool:
        """Something waits for another attempt, or for its turn."""
        return bool(self.parks or self.retries)

    @property
    def is_draining(self) -> bool:
        """The next step has more to take up."""
        return bool(self._draining)

    @property
    def is_changed(self) -> bool:
        """Rows are to be written."""
        return bool(self._changed)

    @property
    def keeps_suspicion(self) -> bool:
        """Something from before the partition was opened has not had its turn."""
        return any(park.keeps_suspicion for parks in (self.parks, self.retries) for park in parks.values())

    # -- a failure --------------------------------------------------------------------------------------------------------

    def park(self, item: Arrival, due: int, failure: str) -> None:
        """Let a message wait until ``due`` (microseconds), its dialog with it; ``NEVER``: until an operator decides."""
        own, found = item.active.identity, item.park
        if found is None:
            found = self.parks[own] = Park(rows.ParkRow(since=self._context.now, failure=failure))
            self.append(found, item)
        else:
            if not found.row.failure:  # another message was the head before
                found.begin(self._context.now)
            self._outbox.write(_key(own, found.row.first), encode_item(item))
        self._wait(item.active, found, due, failure)
        self._changed.add(rows.PARK + own)
        self._show(item, found)

    def _show(self, item: Arrival, found: Park) -> None:
        """Let others see the wait, on the topic of the longest declared delay that is not longer.

        Nothing reads that record back: the truth is the row. It is for people and for pipelines.
        """
        wait = found.row.due - self._context.now
        topic = next((topic for delay, topic in self._context.topics.retries if delay <= wait), None)
        if topic is not None and found.wakes != NEVER:
            self._outbox.produce(
                (topic, self._number, item.key, item.value, self._letters.retry_headers(item, found.row))
            )

    def postpone(self, item: Item, due: int, failure: str) -> None:
        """Let a handler wait that has no message: that of a timer, or of an error."""
        active = item.active
        key = active.identity + item.handler
        found = self.retries.get(key)
        if found is None:
            found = self.retries[key] = Park(rows.ParkRow(since=self._context.now), suspect=item.suspect)
        found.attempted(item.attempts)
        self._wait(active, found, due, failure)
        self._changed.add(rows.RETRY + key)

    def let_wait(self, item: Item, handler: bytes, due: int, failure: str) -> None:
        """Let a handler wait: with its message, and its dialog behind it, if it has one."""
        if has_message(item, handler):
            self.park(item, due, failure)
        else:
            self.postpone(item, due, failure)

    def _wait(self, active: Active, found: Park, due: int, failure: str) -> None:
        """Let a park wait, and note why; a long text is cut, as all of it is in memory.

        Each wait draws a new ticket: a decision made for the wait before comes too late.
        """
        found.fail(failure[:FAILURE_LIMIT], active.endpoint.peer)
        found.wait(due, self._context.now)
        self._look_in_time(active)

    # -- what arrives meanwhile ---------------------------------------------------------------------------------------------

    def append(self, found: Park, item: Arrival) -> None:
        """Put a record behind the parked ones of its dialog; an END takes effect in its turn only, and only the first.

        The head is not counted under the limit, and neither is what only waits its turn: both are no failure of the dialog.
        """
        row, own, endpoint, size = found.row, item.active.identity, item.active.endpoint, len(item.value)
        is_end = item.envelope.kind is Kind.END
        if is_end:
            endpoint.end_waits(item.envelope.seq, self._context.now)
            if row.ended:
                self._context.counts.count_duplicate()
                return
        self._outbox.write(_key(own, row.next), encode_item(item))
        found.add(size, is_end=is_end, suspect=item.suspect)
        self.bytes += size
        self.braked_bytes += size * (endpoint.peer in self._context.brakes.peers)
        if row.next > row.first + 1 and not self.holds_back(endpoint.peer) and not found.waits_its_turn:
            self._count(found, 1, size)
        self._changed.add(rows.PARK + own)

    def _count(self, found: Park, records: int, size: int) -> None:
        """Count records behind a failure, which have a limit; negative numbers take them out again."""
        found.count(records, size)
        self.counted_bytes += size

    def is_full(self, found: Park) -> bool:
        """Say whether more waits behind messages than there may be: of one dialog, or in the partition.

        What waits, or waited, for a queue that is off is no failure of its dialog: the queue's input pauses instead. So it does for the
        brake, unless that would stop others whose messages are handled.
        """
        brakes = self._context.brakes
        if found.peer in brakes.peers and not self._progress.row.off and brakes.others_go_on:
            return self.braked_bytes > self._context.settings.limits.parked_bytes
        if self.holds_back(found.peer) or found.waits_its_turn:
            return False
        limits = self._context.settings.limits
        return found.row.counted > limits.parked_messages or self.counted_bytes > limits.parked_bytes

    def in_the_way(self, *, is_paused: bool) -> int:
        """Count the bytes for which the queue's input is to pause: of all that only waits its turn.

        Behind a failure each dialog has its own limit, and may wait for weeks. What waits for the brake, while the messages of other
        peers are handled, has a limit as well: it is none of theirs.
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
        """Look for a peer with a dialog here that has not been heard of yet: nothing says that its messages fail."""
        well = self._context.brakes.well
        for _, row in self._outbox.store.scan(rows.ENDPOINT):
            if not rows.is_tombstone(row) and (peer := rows.peer_of(row)) not in well:
                self._context.brakes.hear(peer, is_well=True)
                return True
        return False

    # -- its turn -----------------------------------------------------------------------------------------------------------

    def drain(self, find: Callable[[bytes, str, str], Active]) -> None:
        """Go on with the dialogs that had more than the last step took."""
        self._slice_left = SLICE
        draining, self._draining = self._draining, []
        for own, found in draining:
            if self.parks.get(own) is found:
                self._take(find(rows.other_side(own), "", ""), found)

    def take_due(self, active: Active) -> None:
        """Bring back what of an endpoint is to be tried again now."""
        now = self._context.now
        found = self.parks.get(active.identity)
        if found is not None and not found.taken and found.row.due <= now:
            found.take()
            self._take(active, found)
        for handler in (rows.TIMER, rows.ERROR):
            again = self.retries.get(active.identity + handler)
            if again is not None and not again.taken and again.row.due <= now:
                again.take()
                item = Deadline(active, handler=handler, attempts=again.row.attempts, park=again)
                self._work.suspect(item)
                self._work.enqueue(active.lane, item)

    def _take(self, active: Active, found: Park) -> None:
        """Put the head into its lane, behind whatever the lane has to do.

        When the step has taken on enough it is put off to the next one, in its order.
        """
        if self._slice_left <= 0 or self._context.budget.is_spent():
            self._draining.append((active.identity, found))
            return
        self._slice_left -= 1
        item = self.head(active, found)
        self._context.budget.spend(len(item.value))  # it is in memory, and written again if it fails again
        item.take_up(found)
        self._work.suspect(item)
        self._work.follow(active.lane, item)

    def is_stale(self, item: Item) -> bool:
        """Say whether what an item was taken up for is over: its dialog ended, or its handler was decided about."""
        if item.park is None:
            return False
        own = item.active.identity
        found = self.retries.get(own + item.handler) if isinstance(item, Deadline) else self.parks.get(own)
        return found is not item.park

    def head_done(self, item: Item) -> None:
        """A parked item has had its turn: unless it failed again its row goes, and the next follows."""
        active, found = item.active, item.park
        if found is None or not found.taken or not isinstance(item, Arrival) or self.is_stale(item):
            return
        self.returned(found, HANDLED)
        self._drop_head(found, item)
        if active.identity in self.parks:
            self._take(active, found)

    def _drop_head(self, found: Park, item: Arrival) -> None:
        """Delete the head's row: the next record is the head, or the park is over."""
        row, own, size = found.row, item.active.identity, len(item.value)
        self._outbox.write(_key(own, row.first), None)
        found.drop_head(size)
        self.bytes -= size
        self._count(found, -min(row.counted, 1), -min(row.counted_size, size))
        if row.first == row.next:
            self._drop(self.parks, rows.PARK, own)
            return
        self._changed.add(rows.PARK + own)

    def keep(self, item: Item) -> None:
        """Write the row of a head again, whose handler began or failed since.

        The step is closed while it is at work: its attempts so far must not be forgotten with the process.
        """
        found = item.park
        if found is None or not isinstance(item, Arrival) or self.is_stale(item) or not item.is_changed:
            return
        item.saved()
        self._outbox.write(_key(item.active.identity, found.row.first), encode_item(item))

    # -- decisions of an operator ---------------------------------------------------------------------------------------------

    def head(self, active: Active, found: Park) -> Arrival:
        """Return the failed message of a parked dialog.

        Raises:
            StateDamaged: its row is missing, or cannot be understood.
        """
        key = _key(active.identity, found.row.first)
        row = self._outbox.read(key)
        if row is None:
            raise StateDamaged(self._number, f"the parked row {key.hex()} is missing")
        return arrival_of(active, self._outbox.decoded(key, rows.decode_waiting, row))

    def try_now(self, active: Active, found: Park, key: bytes) -> None:
        """Bring forward the next attempt, however long it would have been; ``key`` is that of its row."""
        found.wait(self._context.now, self._context.now)
        self._look_in_time(active)
        self._changed.add(key)

    def replace_head(self, found: Park, item: Arrival) -> None:
        """Let another record take the place of the failed message."""
        grown = len(item.value) - len(self.head(item.active, found).value)
        self._outbox.write(_key(item.active.identity, found.row.first), encode_item(item))
        found.replace_head(grown)
        self.bytes += grown

    def skip_head(self, found: Park, item: Arrival) -> None:
        """Go on without the failed message."""
        active = item.active
        self._drop_head(found, item)
        if active.identity in self.parks:
            self.try_now(active, found, rows.PARK + active.identity)

    def returned(self, found: Park, outcome: str) -> None:
        """Report, once, the outcome of a record that an operator gave back."""
        if command := found.take_returned():
            self._letters.event(Returned(command, outcome))

    # -- the end of the dialog ------------------------------------------------------------------------------------------------

    def close(self, active: Active) -> None:
        """The dialog ended or broke: its parked messages become dead letters, except the message that is just being handled."""
        for handler in (rows.TIMER, rows.ERROR):
            self.forget_retry(active, handler, ENDED)
        found = self.parks.get(active.identity)
        if found is None:
            return
        row = found.row
        running = _is_running(active, found)
        self.returned(found, HANDLED if running else ENDED)
        for number in range(row.first, row.next):
            key = _key(active.identity, number)
            data = self._outbox.read(key)
            self._outbox.write(key, None)
            if data is not None and not (running and number == row.first):
                self._settle(arrival_of(active, self._outbox.decoded(key, rows.decode_waiting, data)))
        self.bytes -= row.size
        self.braked_bytes -= row.size * (found.peer in self._context.brakes.peers)
        self._drop(self.parks, rows.PARK, active.identity)

    def _settle(self, item: Arrival) -> None:
        """Keep what waited in a dialog that is over: a message as a dead letter; the peer's END is heard.

        Its number was accepted, so that nobody sends it again: these bytes are the only ones.
        """
        endpoint, envelope = item.active.endpoint, item.envelope
        if envelope.kind is Kind.MESSAGE:
            self._letters.dead_letter(item, letters.PARKED_AT_END)
            endpoint.gave_up_on()
        elif not item.accepted:
            # The peer's END, whose turn never came: this side has ended too, and now hears of it.
            endpoint.receive(envelope, self._context.now, self._context.settings.limits.held_messages)

    def forget_retry(self, active: Active, handler: bytes, outcome: str) -> None:
        """A handler without a message has run, or is not to run any more."""
        found = self.retries.get(active.identity + handler)
        if found is not None:
            self.returned(found, outcome)
            self._drop(self.retries, rows.RETRY, active.identity + handler)

    def _drop(self, parks: dict[bytes, Park], kind: bytes, name: bytes) -> None:
        found = parks.pop(name)
        self._count(found, -found.row.counted, -found.row.counted_size)
        self._changed.discard(kind + name)
        self._outbox.write(kind + name, None)

    # -- rows -----------------------------------------------------------------------------------------------------------------

    def encode_changed(self) -> None:
        """Put the rows of the parks that changed into the next transaction."""
        for key in self._changed:
            parks = self.parks if key.startswith(rows.PARK) else self.retries
            self._outbox.write(key, rows.encode_park(parks[key[1:]].row))
        self._changed.clear()


def has_message(item: Item, handler: bytes) -> TypeGuard[Arrival]:
    """Say whether a handler is that of a message, or of the peer's END, which its dialog can wait behind."""
    return isinstance(item, Arrival) and item.accepted and not handler


def _key(own: bytes, number: int) -> bytes:
    return rows.numbered(rows.PARKED, own, number)


def _is_running(active: Active, found: Park) -> bool:
    """Say whether a dialog's head is being handled just now: then its own result decides about it."""
    items = active.lane.items
    return bool(items) and items[0].park is found
