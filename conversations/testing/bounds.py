"""Checks of a worker's memory and rows. Most checks are for invariant 8: everything that a worker keeps stays within its limits."""

from __future__ import annotations

from collections.abc import Sized

from conversations.protocol import rows
from conversations.protocol.park_row import decode_park
from conversations.protocol.states import State
from conversations.protocol.waiting_row import decode_waiting
from conversations.worker import Worker
from conversations.worker.partition import Partition
from conversations.worker.waiting_rows import Kept

SPARE = 64
"""Number of deadlines allowed beyond two for each endpoint in memory and two for each row of an endpoint.

Old deadlines stay until they are due.
"""


def check(worker: Worker) -> None:
    """Check the limits that must hold after every step.

    Raises:
        AssertionError: a limit is exceeded, or the count of waiting bytes is wrong.
    """
    limits = worker.settings.limits
    for partition in worker.partitions.values():
        where = f"partition {partition.number} of {worker.context.name}"
        if partition.waiting.bytes < 0:
            raise AssertionError(f"invariant 8 (bounded): {where} counts {partition.waiting.bytes} waiting bytes")
        if (
            partition.waiting.bytes > limits.waiting_bytes
            and not partition.input.paused
            and partition.outbox.flying is None
        ):
            raise AssertionError(
                f"invariant 8 (bounded): {where} reads on with {partition.waiting.bytes} waiting bytes"
            )


def check_at_rest(worker: Worker) -> None:
    """Check the limits and counts that must be right when no step and no handler is under way.

    Raises:
        AssertionError: a limit is exceeded, or memory differs from the rows.
    """
    for partition in worker.partitions.values():
        where = f"partition {partition.number} of {worker.context.name}"
        kept = sum(len(decode_waiting(row).value) for _, row in partition.outbox.scan(rows.WAITING))
        if kept != partition.waiting.bytes:
            raise AssertionError(
                f"invariant 8 (bounded): {where} counts {partition.waiting.bytes} waiting bytes and keeps {kept}"
            )
        parked = sum(len(decode_waiting(row).value) for _, row in partition.outbox.scan(rows.PARKED))
        if parked != partition.parking.bytes:
            raise AssertionError(
                f"invariant 8 (bounded): {where} counts {partition.parking.bytes} parked bytes and keeps {parked}"
            )
        _check_kept(partition, rows.HELD, partition.waiting.held)
        _check_kept(partition, rows.DELAYED, partition.waiting.delayed)
        _check_parked(partition, where)
        _check_endpoints(partition, where)
        _check_deadlines(partition, where)
        if partition.input.paused and partition.waiting.bytes < worker.settings.limits.waiting_bytes // 2:
            raise AssertionError(f"invariant 8 (bounded): {where} stays paused although few bytes wait")


def _check_kept(partition: Partition, kind: bytes, kept: Kept) -> None:
    """Check that the counted bytes of held or delayed rows are equal to the bytes in the rows."""
    found: dict[bytes, int] = {}
    for key, row in partition.outbox.scan(kind):
        found[key[1:18]] = found.get(key[1:18], 0) + len(row)
    if (found, sum(found.values())) != (kept.of, kept.bytes):
        raise AssertionError(
            f"invariant 8 (bounded): partition {partition.number} of {partition.context.name} counts {kept.bytes} bytes of "
            f"rows {kind!r}, {kept.of}, and keeps {found}"
        )


def _check_parked(partition: Partition, where: str) -> None:
    """Check that memory and rows agree about parked dialogs."""
    for kind, parks in ((rows.PARK, partition.parking.parks), (rows.RETRY, partition.parking.retries)):
        kept = {key[1:]: decode_park(row) for key, row in partition.outbox.scan(kind)}
        if kept != {own: park.row for own, park in parks.items()}:
            raise AssertionError(f"invariant 2 (one step): {where} has {parks} in memory, {kept} in its rows")
    for own, park in partition.parking.parks.items():
        numbers = [int.from_bytes(key[-8:], "big") for key, _ in partition.outbox.scan(rows.PARKED + own)]
        if numbers != list(range(park.row.first, park.row.next)) or not numbers:
            raise AssertionError(f"invariant 5 (nothing lost): {where} parks {park.row} and has rows {numbers}")


def _check_endpoints(partition: Partition, where: str) -> None:
    """Check that no work of an endpoint is forgotten.

    A parked dialog has an open endpoint. A held message has a row. The handler of a fired timer or of a broken dialog has an item, a row
    or a deadline, so that the handler will still be called.
    """
    waiting = {park[:17] for park in (*partition.parking.parks, *partition.parking.retries)}
    found = {key[1:] for key, row in partition.outbox.scan(rows.ENDPOINT) if not rows.is_tombstone(row)}
    if not waiting <= found:
        raise AssertionError(f"invariant 7 (no silent end): {where} waits for dialogs that are over: {waiting - found}")
    for own in found:
        active = partition.actives.get(rows.other_side(own))  # partition.find would change memory
        if active is None:
            continue
        endpoint = active.endpoint
        if partition.work.lanes.get(active.lane.name) is not active.lane:
            raise AssertionError(f"invariant 1 (one writer): {where} has two lanes for group {active.lane.name}")
        held = {int.from_bytes(key[-8:], "big") for key, _ in partition.outbox.scan(rows.HELD + own)}
        if endpoint.inbound.held != held:
            raise AssertionError(
                f"invariant 5 (nothing lost): {where} holds {endpoint.inbound.held}, its rows are {held}"
            )
        if active.lane.has_items or endpoint.next_deadline() <= partition.context.now:
            continue
        fired = {rows.timer_handler(name) for name in endpoint.timers() if endpoint.is_firing(name)}
        if not {own + handler for handler in fired} <= partition.parking.retries.keys():
            raise AssertionError(
                f"invariant 7 (no silent end): {where}: a timer fired, and its handler will not be called"
            )
        if endpoint.state is State.ERROR and own + rows.ERROR not in partition.parking.retries:
            raise AssertionError(
                f"invariant 7 (no silent end): {where}: a dialog broke, and its handler will not be called"
            )


def check_forgotten(worker: Worker) -> None:
    """Check that a worker has nothing of its dialogs in memory after all their tombstones were deleted.

    Raises:
        AssertionError: the worker still keeps something; the message names it.
    """
    for partition in worker.partitions.values():
        kept: dict[str, Sized] = {
            # A tick makes an entry for its conversation id, although no dialog has this id.
            "endpoints": [active for active in partition.actives.values() if active.exists or active.tombstone],
            "lanes": [lane for lane in partition.work.lanes.values() if lane.has_items or lane.run is not None],
            "deadlines": partition.schedule.deadlines,
            "tombstones": partition.schedule.tombstones,
            "delayed": partition.waiting.delayed,
            "slow lanes": partition.work.slow,
        }
        left = {name: len(what) for name, what in kept.items() if len(what)}
        if left:
            raise AssertionError(
                f"invariant 8 (bounded): partition {partition.number} of {worker.context.name} has forgotten its dialogs, "
                f"and keeps {left}"
            )


def _check_deadlines(partition: Partition, where: str) -> None:
    known = len(partition.actives) + sum(1 for _ in partition.outbox.scan(rows.ENDPOINT))
    if len(partition.schedule.deadlines) > 2 * known + SPARE:
        raise AssertionError(
            f"invariant 8 (bounded): {where} has {len(partition.schedule.deadlines)} deadlines for {known} endpoints"
        )
