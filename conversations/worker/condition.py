"""The condition of a worker as plain data. The worker's process reports it for the health page and the metrics.

``conversations.metrics`` says which part of it is which metric.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from conversations.durations import SECOND
from conversations.protocol.endpoint import NEVER
from conversations.worker.assignment import Assignment
from conversations.worker.context import Context
from conversations.worker.partition import Partition
from conversations.worker.readiness import Readiness

SHARE = 50
"""The parks of a partition are counted again after 50 times the time that the last count took.

So a count takes at most 2 % of the time, however many dialogs are parked.
"""


class Waits:
    """What waits in the parks of a partition, as it was last counted."""

    __slots__ = ("_again", "_clock", "held", "parked", "partition", "since")

    def __init__(self, partition: Partition, clock: Callable[[], float] = time.perf_counter) -> None:
        self.partition, self._clock = partition, clock
        self.parked = self.held = 0
        """Numbers of parked records, and of failed messages and handlers that wait for an operator."""
        self.since = NEVER
        """Time at which the longest wait began; NEVER if nothing waits."""
        self._again = 0.0

    def look(self) -> None:
        """Count again, unless the last count was long and is new."""
        began = self._clock()
        if began < self._again:
            return
        parking, parked, held, since = self.partition.parking, 0, 0, NEVER
        for parks in (parking.parks, parking.retries):
            for park in parks.values():
                row = park.row
                parked += row.next - row.first
                held += row.due == NEVER
                since = min(since, row.since)
        self.parked, self.held, self.since = parked, held, since
        now = self._clock()
        self._again = now + SHARE * (now - began)


class Conditions:
    """Tells the condition of one worker."""

    __slots__ = ("_assignment", "_context", "_readiness", "_waits")

    def __init__(self, context: Context, assignment: Assignment, readiness: Readiness) -> None:
        self._context, self._assignment, self._readiness = context, assignment, readiness
        self._waits: dict[int, Waits] = {}

    def now(self) -> dict[str, Any]:
        """Return the partitions, the counts, and whether Kafka answers. Any thread may call this method.

        Times are in seconds. The value of ``kafka`` is None while Kafka answers.
        """
        context, assignment = self._context, self._assignment
        with context.lock:  # runs change the partitions and the counts
            partitions = list(assignment.partitions.values())
            known = self._waits
            waits = [
                found if (found := known.get(it.number)) is not None and found.partition is it else Waits(it)
                for it in partitions
            ]
            self._waits = {it.partition.number: it for it in waits}
            lengths = [self._lengths(it) for it in waits]
            counts, durations = context.counts.plain(), context.counts.durations.plain()
        return {
            "restoring": assignment.restoring,
            "clock_off_seconds": round(context.clock.off / SECOND, 3),
            "idle_seconds": context.clock.step_age / SECOND,
            "partitions": lengths,
            # Before a partition is open, this question might read the catalog.
            "queue_partitions": context.connection.partitions(context.name) if lengths else None,
            "aside": sorted(assignment.aside.copy()),
            "kafka": _kafka(self._readiness),
            "brake_on": context.brakes.on,
            "brakes": len(context.brakes.peers),
            "blocked": len(context.destinations.blocked),
            "counts": counts,
            "durations": durations,
        }

    def _lengths(self, waits: Waits) -> dict[str, Any]:
        """Return the sizes and the state of a partition."""
        waits.look()
        partition, row = waits.partition, waits.partition.progress.row
        oldest = 0.0 if waits.since == NEVER else max(0, self._context.clock.now() - waits.since) / SECOND
        return {
            "partition": partition.number,
            "position": row.queue,
            "lag": self._lag(partition),
            "endpoints_in_memory": len(partition.actives),
            "tombstones": len(partition.schedule.tombstones),
            "waiting": sum(lane.count for lane in partition.work.slow),
            "parked": waits.parked,
            "held": waits.held,
            "oldest_wait_seconds": round(oldest, 3),
            "delayed": len(partition.waiting.delayed),
            "early": len(partition.waiting.held),
            "queue_off": row.off,
            "paused": partition.input.paused,
            "unclean_starts": row.unclean_starts,
            "rollbacks": row.rollbacks,
        }

    def _lag(self, partition: Partition) -> int | None:
        """Return the number of offsets between the position of a partition and the end of its queue; None if the end is not known.

        Markers of transactions count as well, except at the end of the queue.
        """
        seen, row = self._context.connection.queue_seen(partition.number), partition.progress.row
        if seen is None:
            return None
        end, read_to = seen
        at = row.queue if partition.input.is_behind else max(row.queue, read_to)
        return max(0, end - at)


def _kafka(readiness: Readiness) -> dict[str, Any] | None:
    unanswered = readiness.unanswered()
    if unanswered is None:
        return None
    seconds, trying = unanswered
    unreachable = readiness.is_unreachable()
    return {"unanswered_seconds": round(seconds, 3), "trying": trying, "unreachable": unreachable}
