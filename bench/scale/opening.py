"""One worker process that takes up its partitions and reports how long it took: ``python -m bench.scale.opening JOB``."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from bench import memory
from bench.contenders import our_loop
from bench.stopwatch import MARK
from bench.watching import Moves, WatchedConnection
from bench.workload import Job
from conversations import Kafka, WorkerSettings
from conversations.interpreter import relax
from conversations.stores.rocksdb import RocksStores
from conversations.worker import Worker


def make_worker(job: Job) -> tuple[Worker, Moves]:
    """Return the worker of the measured service, with its local copies in the job's directory, and its moves."""
    kafka, moves = Kafka(job.bootstrap, namespace=job.space), Moves()
    worker = Worker(
        our_loop.opaque_service(),
        lambda: WatchedConnection(moves, kafka, our_loop.ANSWERING),
        RocksStores(Path(job.directory)),
        settings=WorkerSettings(batch=job.workload.batch),
        namespace=job.space,
    )
    return worker, moves


def run(job: Job) -> None:
    """Open every partition, commit once, and stop cleanly."""
    began = time.perf_counter()
    relax()
    worker, moves = make_worker(job)
    while len(worker.partitions) < job.workload.partitions:
        worker.step(0.1)
    opened = time.perf_counter()
    worker.step(0.0)
    told = {
        "seconds": opened - moves.assigned_at,
        "joining_seconds": moves.assigned_at - began,
        "cpu_seconds": time.process_time(),
        "resident_mb": memory.resident_mb(),
        "peak_mb": memory.peak_mb(),
        "deadlines": sum(len(partition.schedule.deadlines) for partition in worker.partitions.values()),
        "tombstones": sum(len(partition.schedule.tombstones) for partition in worker.partitions.values()),
    }
    worker.close()
    sys.stdout.write(f"\n{MARK}{json.dumps(told)}\n")


if __name__ == "__main__":
    run(Job.from_json(sys.argv[1]))
