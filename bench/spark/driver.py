"""A process with a Spark session that runs the queries it is asked for: ``python -m bench.spark.driver JOB CONTENTS``."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.children import answer
from bench.spark import queries
from bench.spark.subject import CORES, Contents
from bench.workload import Job
from conversations import Kafka
from spark_jobs.reading.wire import Wire
from spark_jobs.running.session import spark_session


class Driver:
    """Runs queries over the queue of a job."""

    def __init__(self, job: Job, contents: Contents) -> None:
        self._directory = job.directory
        spark = spark_session("bench", cores=CORES)
        self._subject = queries.Subject(spark, Wire(Kafka(job.bootstrap, namespace=job.space), {}), contents)

    def count(self, name: str) -> dict[str, Any]:
        """Run a query once, so that its code is ready; return the number of its rows."""
        return self._run(name, counted=True)

    def time(self, name: str) -> dict[str, Any]:
        """Run a query; return how long it took."""
        return self._run(name, counted=False)

    def _run(self, name: str, *, counted: bool) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(dir=self._directory) as directory:
            return queries.run(name, self._subject, Path(directory), counted=counted)


if __name__ == "__main__":
    driver = Driver(Job.from_json(sys.argv[1]), Contents(**json.loads(sys.argv[2])))
    answer({"count": driver.count, "time": driver.time})
