"""The departure of a flight: closing one partition's step, and the work after its commit."""

from __future__ import annotations

import logging
from collections.abc import Callable

from conversations.errors import CopyDamaged, InDoubt, PublicationRefused
from conversations.protocol import rows
from conversations.protocol.envelope import Kind
from conversations.protocol.events import ClockOff, QueuePaused, QueueResumed
from conversations.protocol.states import State
from conversations.protocol.topics import QUEUE
from conversations.worker import outbound, retention, undelivered
from conversations.worker.active import NO_ROW, Arrival, Item, Lane, Recorded
from conversations.worker.partition import Partition
from conversations.worker.sent import NOTHING_SENT
from conversations.worker.undelivered import Failed

log = logging.getLogger("conversations.worker")

SECOND = 1_000_000


def collect(partition: Partition) -> bool:
    """Close the flight of the step that ends now; return False if there is nothing to commit."""
    partition.work.close_step()
    retention.sweep(partition)
    _pass_bound(partition)
    if partition.context.clock.warns():
        _tell_clock(partition)
    partition.letters.report_broken()
    if partition.work.suspicion is not None and partition.work.suspicion.announce():
        partition.progress.change()
    if not partition.pending():
        return False
    _spill(partition)
    partition.parking.encode_changed()
    partition.groups.encode_changed()
    _encode_endpoints(partition)
    if partition.progress.has_decided:
        partition.outbox.write(rows.DECIDED, partition.progress.depart_decided())
    partition.outbox.depart(partition.progress.depart(), partition.progress.row.queue)
    return True


def _tell_clock(partition: Partition) -> None:
    seconds = partition.context.clock.off / SECOND
    log.warning(
        "this machine's clock differs from log time by %+.1f s; the worker uses log time: set the machine's clock",
        seconds,
    )
    partition.letters.event(ClockOff(round(seconds, 1)))


def landed(partition: Partition, checkpoint: int | None) -> list[Callable[[], None]]:
    """Apply a committed step to the local copy; return the notices of the step, which are functions to call after the commit."""
    if partition.outbox.flying is None or partition.gone:
        return []
    try:
        notices = partition.outbox.land(checkpoint)
    except CopyDamaged as error:  # other flights may have landed already, so everything in memory must be forgotten
        raise InDoubt(f"what is committed cannot be kept: {error}") from error
    partition.progress.heard(partition.context.clock.now())  # after the first commit, this clock shows log time
    if partition.work.suspicion is not None:
        partition.work.suspicion.committed()
    return notices


def withdraw(partition: Partition, failed: Failed) -> None:
    """Take refused records out of the flight under way and out of the next flight; refused envelopes become delayed rows."""
    before = frozenset(partition.waiting.delayed.of)
    partition.outbox.withdraw(lambda outs: undelivered.withdraw(partition, outs, failed, before))


def refuse_publications(partition: Partition, failed: Failed) -> bool:
    """Return True if a plain topic refuses a record that a handler of the partition published. Then the partition must be built anew.

    The records and the other effects of a handler are committed together or not at all. The effects are in the state in memory, and cannot be
    taken out of it. So the whole step of the partition is thrown away. The call of the handler is remembered if its record can never be
    appended. If the topic takes no records at all, the handler itself learns it when it runs again.
    """
    broken = False
    for record, called in partition.outbox.published():
        found = failed.records.get(id(record))
        if found is not None:
            refusal = PublicationRefused(found.topic, found.why, too_large=found.too_large)
            partition.context.breakdowns.refuse(partition.number, called, refusal)
        broken |= found is not None or record[0] in failed.topics
    return broken


def pace(partition: Partition) -> None:
    """Pause the queue's input if too many bytes wait in rows. Resume the input when the bytes have fallen to half of their limits."""
    limits = partition.context.settings.limits
    if partition.gone:
        return
    waiting, parked = partition.waiting.bytes, partition.parking.in_the_way(is_paused=partition.input.paused)
    if not partition.input.paused and (waiting > limits.waiting_bytes or parked > limits.parked_bytes):
        partition.input.pause()
        partition.context.connection.pause(partition.number)
        partition.letters.event(QueuePaused(waiting_bytes=waiting, parked_bytes=parked))
    elif partition.input.paused and waiting < limits.waiting_bytes // 2 and parked <= limits.parked_bytes // 2:
        partition.input.resume()
        partition.letters.event(QueueResumed())
        if partition.work.suspicion is None or QUEUE not in partition.work.suspicion.taking.held:
            partition.context.connection.resume(partition.number)


# -- endpoints -----------------------------------------------------------------------------------------------


def _encode_endpoints(partition: Partition) -> None:
    now, parking = partition.context.now, partition.parking
    encoded: dict[bytes, bytes] = {}
    for active in partition.take_dirty():
        endpoint = active.endpoint
        if endpoint.told < endpoint.inbound.next - 1 and endpoint.owes_ack(now):
            outbound.acknowledge(partition, active)
        if endpoint.state is State.CLOSED and active.tombstone is not None:
            encoded[b"E" + active.identity] = rows.encode_tombstone(active.tombstone)
            continue
        if active.sent is not NOTHING_SENT:
            partition.unacknowledged.settle(active)
        encoded[b"E" + active.identity] = rows.encode_endpoint(endpoint, active.constant or active.row_constant())
        if parking.parks or parking.retries or endpoint.next_deadline() < active.scheduled:
            partition.look_in_time(active)
    partition.outbox.write_all(encoded)
    partition.take_dirty()  # ``acknowledge`` has touched endpoints again: their rows are in ``encoded`` already


# -- lanes that are not finished -------------------------------------------------------------------------------


def _spill(partition: Partition) -> None:
    """Keep unfinished items as rows, so that the positions can move past their records."""
    for lane in partition.work.unfinished():
        _spill_lane(partition, lane)


def _spill_lane(partition: Partition, lane: Lane) -> None:
    fresh: list[Item] = []
    rest = lane.rest()
    for item in reversed(rest):
        if item.park is not None:
            continue  # the item has a parked row, which keeps the order
        if item.row != NO_ROW:
            break
        fresh.append(item)
    head = lane.head
    if head.park is not None:
        partition.parking.keep(head)
    elif not fresh or fresh[-1] is not head:
        _keep_head(partition, head)
    # A message may be accepted only if all earlier envelopes of its dialog are accepted.
    kept = [item for item in rest if isinstance(item, Recorded) and item.row != NO_ROW] if fresh else []
    behind = {id(item.active) for item in kept if not item.accepted}
    for item in reversed(fresh):
        if not isinstance(item, Recorded) or not item.needs_record:
            continue
        if id(item.active) not in behind and isinstance(item, Arrival):
            _accept_early(partition, item)
        if not item.accepted:
            behind.add(id(item.active))
        partition.waiting.put_behind(item)


def _keep_head(partition: Partition, item: Item) -> None:
    if not isinstance(item, Recorded):
        return
    if item.row == NO_ROW and item.needs_record:
        # The item was held, and came to the front when its gap closed. So its row must be in front of the rows of the other items.
        partition.waiting.put_in_front(item)
    else:
        partition.waiting.update(item)


def _accept_early(partition: Partition, item: Arrival) -> None:
    """Accept the number of a message whose handler has not run yet. An acknowledgement says that a message was received, not handled."""
    active, envelope = item.active, item.envelope
    if item.accepted or envelope.kind is not Kind.MESSAGE or not active.exists:
        return
    endpoint = active.endpoint
    if endpoint.state is State.CONVERSING and envelope.seq == endpoint.inbound.next and not endpoint.inbound.held:
        limit = partition.waiting.most_held
        endpoint.receive(envelope, partition.context.now, limit)
        item.accept()
        partition.touch(active)


def _pass_bound(partition: Partition) -> None:
    """Forget the unclean start if all records from before the start are handled. After that, nothing is suspect any more."""
    if partition.progress.row.unclean_starts and partition.has_handled_the_past():
        partition.progress.leave_the_past()
        partition.work.trust()
