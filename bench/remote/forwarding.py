"""A forwarder: ``python -m bench.remote.forwarding JOB THERE``. With a third argument, it writes a profile into this file at its end."""

from __future__ import annotations

import cProfile
import sys
import threading
import time
from typing import Any

from bench.children import answer
from bench.workload import PARTITIONS, Job
from conversations import Kafka
from conversations.interpreter import relax
from conversations.kafka.forwarder import Forwarder
from conversations.protocol.routes import Cluster


def main(text: str, there: str, profile: str = "") -> None:
    job = Job.from_json(text)
    other = Cluster(job.contender, there, job.space, PARTITIONS)
    forwarder = Forwarder(Kafka(job.bootstrap, namespace=job.space), other, Kafka(there, namespace=job.space))
    profiler = cProfile.Profile() if profile else None
    thread = threading.Thread(target=profiler.runcall, args=[forwarder.run]) if profiler else threading.Thread(target=forwarder.run)  # fmt: skip
    relax()
    thread.start()

    def figures() -> dict[str, Any]:
        return {**forwarder.carried._asdict(), "cpu_seconds": time.process_time(), "trouble": forwarder.trouble}

    answer({"figures": figures})
    forwarder.stop()
    thread.join()
    if profiler is not None:
        profiler.dump_stats(profile)


if __name__ == "__main__":
    main(*sys.argv[1:])
