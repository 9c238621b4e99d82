"""Dialogs whose message failed: it and what arrives behind it wait in rows, until it is tried again or a human decides.

The rows are the truth. The head runs again in place, as an item of its lane; while there is any row of a dialog, what
arrives for it is added behind, so that its order cannot change, whoever owns the partition by then.
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
FAILURE_LIMIT = 1_000
"""Characters of what a handler raised that a row repeats."""


# -- a failure --------------------------------------------------------------------------------------------------------


def park(partition: Partition, item: Item, due: int, failure: str) -> None:
    """Let a message wait until ``due`` (microseconds), its dialog with it; ``NEVER``: until an operator decides."""
    active = _active(item)
    found = partition.parks.get(active.identity)
    if found is None:
        found = partition.parks[active.identity] = Park(rows.ParkRow(since=partition.owner.now))
        append(partition, found, item)
    else:
        partition.write(_key(active, found.row.first), encode_item(item))
    _wait(partition, active, found, due, failure)
    partition.change(rows.PARK, active.identity)


def postpone(partition: Partition, item: Item, due: int, failure: str) -> None:
    """Let a handler wait that has no message: that of a timer, or of an error that nobody sent."""
    active = _active(item)
    found = partition.retries.get(active.identity)
    if found is None:
        found = partition.retries[active.identity] = Park(rows.ParkRow(since=partition.owner.now))
    found.row.attempts = item.attempts
    _wait(partition, active, found, due, failure)
    partition.change(rows.RETRY, active.identity)


def _wait(partition: Partition, active: Active, found: Park, due: int, failure: str) -> None:
    row = found.row
    row.due, row.held, row.failure = due, due == NEVER, failure[:FAILURE_LIMIT]
    row.ticket += 1
    found.taken = False
    partition.schedule(active)


# -- what arrives meanwhile ---------------------------------------------------------------------------------------------


def append(partition: Partition, found: Park, item: Item) -> None:
    """Put a record behind what is parked of its dialog; an END takes effect in its turn only, and only the first."""
    active, row = _active(item), found.row
    if item.envelope is not None and item.envelope.kind is Kind.END:
        if row.ended:
            partition.owner.counts.duplicates += 1
            return
        row.ended = True
    partition.write(_key(active, row.next), encode_item(item))
    row.next += 1
    row.size += len(item.value)
    partition.parked_bytes += len(item.value)
    partition.change(rows.PARK, active.identity)


def is_full(partition: Partition, found: Park) -> bool:
    """Say whether more waits behind a message than one dialog may have."""
    return found.row.next - found.row.first > partition.owner.settings.limits.parked_messages


# -- its turn -----------------------------------------------------------------------------------------------------------


def wake(partition: Partition) -> None:
    """Give every endpoint that something is due of its turn: what waits for another attempt, and its own deadlines."""
    _drain(partition)
    now = partition.owner.now
    if partition.next_deadline() > now:
        return
    for active in partition.pop_due(now):
        _take_due(partition, active)
        if active.endpoint.next_deadline() <= now:
            partition.enqueue(active.lane, Item(active, deadline=True))  # schedules it, once it has run
        else:
            partition.schedule(active)


def _take_due(partition: Partition, active: Active) -> None:
    """Bring back what of an endpoint is to be tried again now."""
    now = partition.owner.now
    found = partition.parks.get(active.identity)
    if found is not None and not found.taken and found.row.due <= now:
        found.taken = True
        _take(partition, active, found)
    again = partition.retries.get(active.identity)
    if again is not None and not again.taken and again.row.due <= now:
        again.taken = True
        partition.enqueue(active.lane, Item(active, deadline=True, again=True, attempts=again.row.attempts))


def _drain(partition: Partition) -> None:
    """Go on with the dialogs that had more than the last step took."""
    partition.slice_left = SLICE
    draining, partition.draining = partition.draining, []
    for own in draining:
        found = partition.parks.get(own)
        if found is not None:
            _take(partition, partition.find(rows.other_side(own), "", ""), found)


def _take(partition: Partition, active: Active, found: Park) -> None:
    """Put the head into its lane, behind whatever the lane has to do."""
    if partition.slice_left <= 0:
        partition.draining.append(active.identity)
        return
    partition.slice_left -= 1
    item = head(partition, active, found)
    item.parked = True
    item.kept = (item.accepted, item.attempts)
    lane = active.lane
    if lane.run is not None:
        lane.items.append(item)  # its run goes on as long as there is something
    else:
        partition.enqueue(lane, item)


def try_now(partition: Partition, active: Active, found: Park, kind: bytes) -> None:
    """Bring forward the next attempt, however long it would have been."""
    found.row.due, found.row.held = partition.owner.now, False
    found.row.ticket += 1
    partition.schedule(active)
    partition.change(kind, active.identity)


def head(partition: Partition, active: Active, found: Park) -> Item:
    """Return the failed message of a parked dialog.

    Raises:
        StateDamaged: its row is missing, or cannot be understood.
    """
    key = _key(active, found.row.first)
    row = partition.read(key)
    if row is None:
        raise StateDamaged(partition.number, f"the parked row {key.hex()} is missing")
    return item_of(active, partition.decoded(key, rows.decode_waiting, row))


def replace_head(partition: Partition, active: Active, found: Park, item: Item) -> None:
    """Let another record take the place of the failed message."""
    before = len(head(partition, active, found).value)
    partition.write(_key(active, found.row.first), encode_item(item))
    found.row.size += len(item.value) - before
    partition.parked_bytes += len(item.value) - before


def skip_head(partition: Partition, active: Active, found: Park, item: Item) -> None:
    """Go on without the failed message."""
    _drop_head(partition, active, found, item)
    if active.identity in partition.parks:
        found.row.due, found.row.held = partition.owner.now, False
        found.row.ticket += 1
        found.taken = True
        _take(partition, active, found)


def is_over(partition: Partition, item: Item) -> bool:
    """Say whether an item's dialog ended, and its row with it, before its turn came."""
    return _active(item).identity not in partition.parks


def finished(partition: Partition, item: Item) -> None:
    """A parked item has had its turn: unless it failed again its row goes, and the next follows."""
    active = _active(item)
    found = partition.parks.get(active.identity)
    if found is None or not found.taken:
        return
    _drop_head(partition, active, found, item)
    if active.identity in partition.parks:
        _take(partition, active, found)


def _drop_head(partition: Partition, active: Active, found: Park, item: Item) -> None:
    row = found.row
    partition.write(_key(active, row.first), None)
    row.first += 1
    row.size -= len(item.value)
    partition.parked_bytes -= len(item.value)
    if row.first == row.next:
        _drop(partition, partition.parks, rows.PARK, active.identity)
        return
    partition.change(rows.PARK, active.identity)


def keep(partition: Partition, item: Item) -> None:
    """Write the row of a head again, whose handler began or failed since."""
    active = _active(item)
    found = partition.parks.get(active.identity)
    if found is not None and item.kept != (item.accepted, item.attempts):
        item.kept = (item.accepted, item.attempts)
        partition.write(_key(active, found.row.first), encode_item(item))


# -- the end of the dialog ------------------------------------------------------------------------------------------------


def over(partition: Partition, active: Active) -> None:
    """The dialog ended or broke: what is parked becomes dead letters, but for the message that is just being handled."""
    settle(partition, active)
    found = partition.parks.get(active.identity)
    if found is None:
        return
    row = found.row
    for number in range(row.first, row.next):
        key = _key(active, number)
        data = partition.read(key)
        partition.write(key, None)
        if data is None or (number == row.first and _is_running(active)):
            continue
        item = item_of(active, partition.decoded(key, rows.decode_waiting, data))
        if item.envelope is not None and item.envelope.kind is Kind.MESSAGE:
            letters.dead_letter(partition, item, letters.PARKED_AT_END)
            active.endpoint.dead_lettered += 1
    partition.parked_bytes -= row.size
    _drop(partition, partition.parks, rows.PARK, active.identity)


def settle(partition: Partition, active: Active) -> None:
    """The handler without a message has run, or is not to run any more."""
    if active.identity in partition.retries:
        _drop(partition, partition.retries, rows.RETRY, active.identity)


def _is_running(active: Active) -> bool:
    items = active.lane.items
    return bool(items) and items[0].parked and items[0].active is active


def _drop(partition: Partition, parks: dict[bytes, Park], kind: bytes, own: bytes) -> None:
    del parks[own]
    partition.changed.discard((kind, own))
    partition.write(kind + own, None)


# -- rows -----------------------------------------------------------------------------------------------------------------


def encode_changed(partition: Partition) -> None:
    """Put the rows of the parks that changed into the next transaction."""
    for kind, own in partition.changed:
        found = (partition.parks if kind == rows.PARK else partition.retries)[own]
        partition.write(kind + own, rows.encode_park(found.row))
    partition.changed.clear()


def _key(active: Active, number: int) -> bytes:
    return rows.numbered(rows.PARKED, active.identity, number)


def _active(item: Item) -> Active:
    if item.active is None:
        raise TypeError("only what has an endpoint can be tried again later")
    return item.active
