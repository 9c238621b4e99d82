"""The worker that gets the letters of a redrive: ``python -m bench.parking.worker JOB``. As for operators, it is not in the process of the redrive."""

from __future__ import annotations

import sys

from bench.children import answer
from bench.contenders import our_loop
from bench.serving import serving
from bench.workload import Job
from conversations import Kafka, WorkerSettings


def main(text: str) -> None:
    job = Job.from_json(text)
    kafka = Kafka(job.bootstrap, namespace=job.space)
    with serving(our_loop.opaque_service(), kafka, job.directory, WorkerSettings()) as worker:
        answer({"figures": worker.figures})


if __name__ == "__main__":
    main(sys.argv[1])
