"""Dialogs whose message failed: it and what arrives behind it wait in rows, until it is tried again or a human decides.

The rows are the truth. The head runs again in place, as an item of its lane; while there is any row of a dialog, what
arrives for it is added behind, so that its order cannot change, whoever owns the partition by then. A handler without a
message (a timer's, an error's) waits in a row of its own, with nothing behind it.
"""

from __future__ import annotations

from conversations.errors import StateDamaged
from conversations.protocol import rows
from conversations.protocol.endpoint import NEVER
from conversations.protocol.envelope import Kind
from conversations.worker import letters
from conversations.worker.active import Active, Item, Park
from conversations.worker.partition import Partition
from conversations.worker.records import encode_item, item_of

SLICE = 1_000
"""Parked records taken up by one step of a partition at most."""
HANDLED, FAILED, ENDED, DECIDED = "handled", "failed", "ended", "decided"
"""What may become of something that was given back: its dialog may end before, or somebody decide about it again."""
FAILURE_LIMIT = 200
"""Characters of what a handler raised that a row repeats; all of it is in memory, for every parked dialog."""


# -- a failure --------------------------------------------------------------------------------------------------------


def park(partition: Partition, item: Item, due: int, failure: str) -> None:
    """Let a message wait until ``due`` (microseconds), its dialog with it; ``NEVER``: until an operator decides."""
    active = _active(item)
    found = item.park
    if found is None:
        found = partition.parks[active.identity] = Park(rows.ParkRow(since=partition.owner.now, failure=failure))
        append(partition, active, found, item)
    else:
        if not found.row.failure:  # another message was the head before
            found.row.since = partition.owner.now
        partition.outbox.write(_key(active, found.row.first), encode_item(item))
    _wait(partition, active, found, due, failure)
    partition.changed.add(rows.PARK + active.identity)
    _show(partition, item, found)


def _show(partition: Partition, item: Item, found: Park) -> None:
    """Let others see the wait, on the topic of the longest declared delay that is not longer."""
    wait = found.row.due - partition.owner.now
    topic = next((topic for delay, topic in partition.owner.retry_topics if delay <= wait), None)
    if topic is not None and found.wakes != NEVER:
        partition.outbox.produce(
            (topic, partition.number, item.key, item.value, letters.retry_headers(partition, item, found.row))
        )


def postpone(partition: Partition, item: Item, due: int, failure: str) -> None:
    """Let a handler wait that has no message: that of a timer, or of an error."""
    active = _active(item)
    key = active.identity + item.handler
    found = partition.retries.get(key)
    if found is None:
        found = partition.retries[key] = Park(rows.ParkRow(since=partition.owner.now), suspect=item.suspect)
    found.row.attempts = item.attempts
    _wait(partition, active, found, due, failure)
    partition.changed.add(rows.RETRY + key)


def has_message(item: Item, handler: bytes) -> bool:
    """Say whether a handler is that of a message, or of the peer's END, which its dialog can wait behind."""
    return item.envelope is not None and item.accepted and not handler


def let_wait(partition: Partition, item: Item, handler: bytes, due: int, failure: str) -> None:
    """Let a handler wait: with its message, and its dialog behind it, if it has one."""
    if has_message(item, handler):
        park(partition, item, due, failure)
    else:
        postpone(partition, item, due, failure)


def _wait(partition: Partition, active: Active, found: Park, due: int, failure: str) -> None:
    found.row.failure, found.peer = failure[:FAILURE_LIMIT], active.endpoint.peer
    found.wait(due, partition.owner.now)
    partition.look_in_time(active)


# -- what arrives meanwhile ---------------------------------------------------------------------------------------------


def append(partition: Partition, active: Active, found: Park, item: Item) -> None:
    """Put a record behind what is parked of its dialog; an END takes effect in its turn only, and only the first."""
    row = found.row
    if item.envelope is not None and item.envelope.kind is Kind.END:
        active.endpoint.end_waits(item.envelope.seq, partition.owner.now)
        if row.ended:
            partition.owner.counts.duplicates += 1
            return
        row.ended = True
    partition.outbox.write(_key(active, row.next), encode_item(item))
    found.suspect |= item.suspect
    row.next += 1
    row.size += len(item.value)
    partition.parked_bytes += len(item.value)
    partition.braked_bytes += len(item.value) * (active.endpoint.peer in partition.owner.braking.peers)
    if row.next > row.first + 1 and not partition.holds_back(active.endpoint.peer) and not found.waits_its_turn:
        _count(partition, row, 1, len(item.value))
    partition.changed.add(rows.PARK + active.identity)


def _count(partition: Partition, row: rows.ParkRow, records: int, size: int) -> None:
    row.counted += records
    row.counted_size += size
    partition.counted_bytes += size


def is_full(partition: Partition, found: Park) -> bool:
    """Say whether more waits behind messages than there may be: of one dialog, or in the partition.

    What waits, or waited, for a queue that is off is no failure of its dialog: the queue's input pauses instead. So it does for the
    brake, unless that would stop others whose messages are handled.
    """
    braking = partition.owner.braking
    if found.peer in braking.peers and not partition.progress.row.off and braking.others_go_on:
        return partition.braked_bytes > partition.owner.settings.limits.parked_bytes
    if partition.holds_back(found.peer) or found.waits_its_turn:
        return False
    limits = partition.owner.settings.limits
    return found.row.counted > limits.parked_messages or partition.counted_bytes > limits.parked_bytes


def in_the_way(partition: Partition) -> int:
    """Count the bytes for which the queue's input is to pause: of all that only waits its turn.

    Behind a failure each dialog has its own limit, and may wait for weeks. What waits for the brake, while the messages of other
    peers are handled, has a limit as well: it is none of theirs.
    """
    limit, braking = partition.owner.settings.limits.parked_bytes, partition.owner.braking
    partition.braked_bytes = 0
    if partition.parked_bytes <= limit // 2:
        return 0
    waiting = [park for park in partition.parks.values() if park.waits_its_turn]
    parked = sum(park.row.size for park in waiting)
    if not braking.peers or partition.progress.row.off:
        return parked
    partition.braked_bytes = sum(park.row.size for park in waiting if park.peer in braking.peers)
    is_at_limit = parked > limit and not partition.backlog.paused
    if braking.others_go_on or (is_at_limit and _knows_another(partition)):
        parked -= partition.braked_bytes
    return parked


def _knows_another(partition: Partition) -> bool:
    """Look for a peer with a dialog here that has not been heard of yet: nothing says that its messages fail."""
    well = partition.owner.braking.well
    for _, row in partition.outbox.store.scan(rows.ENDPOINT):
        if not rows.is_tombstone(row) and (peer := rows.peer_of(row)) not in well:
            partition.owner.braking.hear(peer, is_well=True)
            return True
    return False


# -- its turn -----------------------------------------------------------------------------------------------------------


def wake(partition: Partition) -> None:
    """Give every endpoint that something is due of its turn: what waits for another attempt, and its own deadlines."""
    _drain(partition)
    now = partition.owner.now
    if partition.next_deadline() > now:
        return
    budget = partition.owner.budget
    for active in partition.pop_due(now):
        _take_due(partition, active)
        if active.endpoint.next_deadline() <= now:
            partition.work.enqueue(
                active.lane, partition.work.suspect(Item(active, deadline=True))
            )  # schedules it, once it has run
        else:
            partition.look_in_time(active)
        if budget.is_read():
            return  # the deadlines that are left are still there


def _drain(partition: Partition) -> None:
    """Go on with the dialogs that had more than the last step took."""
    partition.slice_left = SLICE
    draining, partition.draining = partition.draining, []
    for own, found in draining:
        if partition.parks.get(own) is found:
            _take(partition, partition.find(rows.other_side(own), "", ""), found)


def _take_due(partition: Partition, active: Active) -> None:
    """Bring back what of an endpoint is to be tried again now."""
    now = partition.owner.now
    found = partition.parks.get(active.identity)
    if found is not None and not found.taken and found.row.due <= now:
        found.taken = True
        _take(partition, active, found)
    for handler in (rows.TIMER, rows.ERROR):
        again = partition.retries.get(active.identity + handler)
        if again is not None and not again.taken and again.row.due <= now:
            again.taken = True
            item = Item(active, deadline=True, handler=handler, attempts=again.row.attempts, park=again)
            partition.work.enqueue(active.lane, partition.work.suspect(item))


def _take(partition: Partition, active: Active, found: Park) -> None:
    """Put the head into its lane, behind whatever the lane has to do."""
    if partition.slice_left <= 0 or partition.owner.budget.is_spent():
        partition.draining.append((active.identity, found))
        return
    partition.slice_left -= 1
    item = head(partition, active, found)
    partition.owner.budget.spend(len(item.value))  # it is in memory, and written again if it fails again
    item.park = found
    item.saved()
    partition.work.suspect(item)
    lane = active.lane
    if lane.run is not None:
        lane.items.append(item)  # its run goes on as long as there is something
    else:
        partition.work.enqueue(lane, item)


def is_stale(partition: Partition, item: Item) -> bool:
    """Say whether what an item was taken up for is over: its dialog ended, or its handler was decided about."""
    if item.park is None:
        return False
    own = _active(item).identity
    found = partition.retries.get(own + item.handler) if item.deadline else partition.parks.get(own)
    return found is not item.park


def head_done(partition: Partition, item: Item) -> None:
    """A parked item has had its turn: unless it failed again its row goes, and the next follows."""
    active, found = _active(item), item.park
    if found is None or not found.taken or item.deadline or is_stale(partition, item):
        return
    returned(partition, found, HANDLED)
    _drop_head(partition, active, found, item)
    if active.identity in partition.parks:
        _take(partition, active, found)


def _drop_head(partition: Partition, active: Active, found: Park, item: Item) -> None:
    row = found.row
    partition.outbox.write(_key(active, row.first), None)
    row.first += 1
    row.returns, row.returned, row.failure, row.edited = 0, "", "", ""
    row.size -= len(item.value)
    partition.parked_bytes -= len(item.value)
    _count(partition, row, -min(row.counted, 1), -min(row.counted_size, len(item.value)))
    if row.first == row.next:
        _drop(partition, partition.parks, rows.PARK, active.identity)
        return
    partition.changed.add(rows.PARK + active.identity)


def keep(partition: Partition, item: Item) -> None:
    """Write the row of a head again, whose handler began or failed since."""
    found = item.park
    if found is None or item.deadline or is_stale(partition, item) or not item.is_changed:
        return
    item.saved()
    partition.outbox.write(_key(_active(item), found.row.first), encode_item(item))


# -- decisions of an operator ---------------------------------------------------------------------------------------------


def head(partition: Partition, active: Active, found: Park) -> Item:
    """Return the failed message of a parked dialog.

    Raises:
        StateDamaged: its row is missing, or cannot be understood.
    """
    key = _key(active, found.row.first)
    row = partition.outbox.read(key)
    if row is None:
        raise StateDamaged(partition.number, f"the parked row {key.hex()} is missing")
    return item_of(active, partition.outbox.decoded(key, rows.decode_waiting, row))


def try_now(partition: Partition, active: Active, found: Park, key: bytes) -> None:
    """Bring forward the next attempt, however long it would have been; ``key`` is that of its row."""
    found.wait(partition.owner.now, partition.owner.now)
    partition.look_in_time(active)
    partition.changed.add(key)


def replace_head(partition: Partition, active: Active, found: Park, item: Item) -> None:
    """Let another record take the place of the failed message."""
    grown = len(item.value) - len(head(partition, active, found).value)
    partition.outbox.write(_key(active, found.row.first), encode_item(item))
    found.row.size += grown
    partition.parked_bytes += grown


def skip_head(partition: Partition, active: Active, found: Park, item: Item) -> None:
    """Go on without the failed message."""
    _drop_head(partition, active, found, item)
    if active.identity in partition.parks:
        try_now(partition, active, found, rows.PARK + active.identity)


def returned(partition: Partition, found: Park, outcome: str) -> None:
    """Report, once, what became of something that an operator gave back."""
    command, found.row.returned = found.row.returned, ""
    if command:
        letters.event(partition, "RETURNED", command=command, outcome=outcome)


# -- the end of the dialog ------------------------------------------------------------------------------------------------


def close_park(partition: Partition, active: Active) -> None:
    """The dialog ended or broke: what is parked becomes dead letters, but for the message that is just being handled."""
    for handler in (rows.TIMER, rows.ERROR):
        forget_retry(partition, active, handler, ENDED)
    found = partition.parks.get(active.identity)
    if found is None:
        return
    row = found.row
    running = _is_running(active, found)
    returned(partition, found, HANDLED if running else ENDED)
    for number in range(row.first, row.next):
        key = _key(active, number)
        data = partition.outbox.read(key)
        partition.outbox.write(key, None)
        if data is not None and not (running and number == row.first):
            _settle(partition, active, item_of(active, partition.outbox.decoded(key, rows.decode_waiting, data)))
    partition.parked_bytes -= row.size
    partition.braked_bytes -= row.size * (found.peer in partition.owner.braking.peers)
    _drop(partition, partition.parks, rows.PARK, active.identity)


def _settle(partition: Partition, active: Active, item: Item) -> None:
    envelope = item.envelope
    if envelope is None:
        return
    if envelope.kind is Kind.MESSAGE:
        letters.dead_letter(partition, item, letters.PARKED_AT_END)
        active.endpoint.dead_lettered += 1
    elif not item.accepted:
        # The peer's END, whose turn never came: this side has ended too, and now hears of it.
        active.endpoint.receive(envelope, partition.owner.now, partition.owner.settings.limits.held_messages)


def forget_retry(partition: Partition, active: Active, handler: bytes, outcome: str) -> None:
    """A handler without a message has run, or is not to run any more."""
    found = partition.retries.get(active.identity + handler)
    if found is not None:
        returned(partition, found, outcome)
        _drop(partition, partition.retries, rows.RETRY, active.identity + handler)


def _is_running(active: Active, found: Park) -> bool:
    items = active.lane.items
    return bool(items) and items[0].park is found


def _drop(partition: Partition, parks: dict[bytes, Park], kind: bytes, name: bytes) -> None:
    found = parks.pop(name)
    _count(partition, found.row, -found.row.counted, -found.row.counted_size)
    partition.changed.discard(kind + name)
    partition.outbox.write(kind + name, None)


# -- rows -----------------------------------------------------------------------------------------------------------------


def encode_changed(partition: Partition) -> None:
    """Put the rows of the parks that changed into the next transaction."""
    for key in partition.changed:
        parks = partition.parks if key.startswith(rows.PARK) else partition.retries
        partition.outbox.write(key, rows.encode_park(parks[key[1:]].row))
    partition.changed.clear()


def _key(active: Active, number: int) -> bytes:
    return rows.numbered(rows.PARKED, active.identity, number)


def _active(item: Item) -> Active:
    if item.active is None:
        raise TypeError("only what has an endpoint can be tried again later")
    return item.active
