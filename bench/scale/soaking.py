"""The worker process of a soak. It ends when its standard input ends: ``python -m bench.scale.soaking JOB``."""

from __future__ import annotations

import json
import sys
import threading
import time

from bench import memory
from bench.scale.opening import make_worker
from bench.workload import Job
from conversations.interpreter import relax

EVERY = 10.0
"""Seconds between two samples."""


def run(job: Job) -> None:
    """Work, and print a sample every few seconds, until standard input has ended and everything is handled."""
    relax()
    worker, _ = make_worker(job)
    over = threading.Event()
    threading.Thread(target=_await_end, args=(over,), daemon=True).start()
    began = last = time.monotonic()
    idle = 0
    while not over.is_set() or idle < 10:
        idle = 0 if worker.step(0.1) else idle + 1
        if time.monotonic() - last >= EVERY:
            last = time.monotonic()
            sample = {
                "seconds": last - began, "resident_mb": memory.resident_mb(), "peak_mb": memory.peak_mb(),
                "handled": worker.counts.handled,
                "tombstones": sum(len(partition.schedule.tombstones) for partition in worker.partitions.values()),
            }  # fmt: skip
            sys.stdout.write(json.dumps(sample) + "\n")
            sys.stdout.flush()
    worker.close()


def _await_end(over: threading.Event) -> None:
    sys.stdin.read()
    over.set()


if __name__ == "__main__":
    run(Job.from_json(sys.argv[1]))
