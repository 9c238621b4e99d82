"""One worker process that takes up parked messages and handles them all: ``python -m bench.parking.draining JOB``."""

from __future__ import annotations

import json
import sys
import time

from bench import memory
from bench.scale.opening import make_worker
from bench.stopwatch import MARK
from bench.workload import Job
from conversations.interpreter import relax


def run(job: Job) -> None:
    """Open every partition, handle all messages, and stop cleanly."""
    relax()
    worker, moves = make_worker(job)
    while len(worker.partitions) < job.workload.partitions:
        worker.step(0.1)
    while worker.counts.handled < job.workload.messages or worker.busy():
        worker.step(0.1)
    told = {
        "seconds": time.perf_counter() - moves.assigned_at, "cpu_seconds": time.process_time(),
        "handled": worker.counts.handled, "peak_mb": memory.peak_mb(),
    }  # fmt: skip
    worker.close()
    sys.stdout.write(f"\n{MARK}{json.dumps(told)}\n")


if __name__ == "__main__":
    run(Job.from_json(sys.argv[1]))
