"""One worker in its own process, which reports its CPU and its kept bytes. Only ``two_workers`` starts it."""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

from conversations import Kafka, Limits, Service, WorkerSettings
from conversations.crew import Crew, kafka_worker
from conversations.worker import Worker
from conversations.worker.residents import ENDPOINT_BYTES
from tests.hostile.support import trading_services as trade

LIMITS = Limits(
    held_bytes=2_000_000, delayed_bytes=4_000_000, dialog_bytes=1_000_000, step_bytes=8_000_000, waiting_bytes=8_000_000,
    parked_bytes=4_000_000, cached_bytes=2_000 * ENDPOINT_BYTES,
)  # fmt: skip
"""Limits so small that an attack of some megabytes reaches them."""
READY = 90.0
"""Most seconds until a worker has taken up its partitions."""


def facts(worker: Worker) -> dict[str, Any]:
    """Return the facts of a worker: CPU, counts, positions and kept bytes. Sizes may be one step old."""
    partitions = list(worker.partitions.values())
    return {
        "cpu": time.process_time(),
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "over": len(trade.OVER),
        "steps": worker.counts.commits,
        "handled": worker.counts.handled,
        "busy": worker.busy(),
        "positions": {it.number: it.progress.row.queue for it in partitions},
        "braked": worker.context.brakes.on,
        "off": [it.number for it in partitions if it.progress.row.off],
        "paused": [it.number for it in partitions if it.input.paused],
        "kept": {
            "held": max((it.waiting.held.bytes for it in partitions), default=0),
            "delayed": max((it.waiting.delayed.bytes for it in partitions), default=0),
            "parked": max((it.parking.bytes for it in partitions), default=0),
            "waiting": max((it.waiting.bytes for it in partitions), default=0),
            "endpoints": sum(len(it.actives) for it in partitions),
        },
    }


def main() -> None:
    """Work until the standard input ends. Answer each line of the input with the facts, as JSON."""
    service, bootstrap, namespace, state = sys.argv[1:]
    kafka = Kafka(bootstrap, namespace=namespace)
    made: Service[Any] = trade.shop() if service == "shop" else trade.web()
    worker = kafka_worker(made, kafka, WorkerSettings(limits=LIMITS, slot="one"), state_directory=Path(state))
    with Crew([worker], kafka) as crew:
        crew.await_ready(READY)
        for _ in sys.stdin:
            crew.raise_failure()
            sys.stdout.write(json.dumps(facts(worker)) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
