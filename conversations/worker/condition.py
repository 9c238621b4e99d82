"""The condition of a worker as plain data. The worker's process reports it for the health page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from conversations.worker.context import Context
from conversations.worker.partition import Partition
from conversations.worker.readiness import Readiness


def condition_of(context: Context, partitions: Mapping[int, Partition], readiness: Readiness) -> dict[str, Any]:
    """Return the partitions, the counts, and whether Kafka answers. Any thread may call this function.

    Times are in seconds. The value of ``kafka`` is None while Kafka answers.
    """
    with context.lock:  # runs change the partitions and the counts
        lengths = [partition.lengths() for partition in list(partitions.values())]
        counts = asdict(context.counts)
    return {
        "clock_off_seconds": round(context.clock.off / 1_000_000, 3),
        "idle_seconds": max(0.0, (context.clock.now() - context.now) / 1_000_000),
        "partitions": lengths,
        "kafka": _kafka(readiness),
        "brake_on": context.brakes.on,
        "counts": counts,
    }


def _kafka(readiness: Readiness) -> dict[str, Any] | None:
    unanswered = readiness.unanswered()
    if unanswered is None:
        return None
    seconds, trying = unanswered
    unreachable = readiness.is_unreachable()
    return {"unanswered_seconds": round(seconds, 3), "trying": trying, "unreachable": unreachable}
