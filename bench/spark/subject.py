"""The queue that Spark reads: messages of many dialogs, some of them twice."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from bench import fill, topics
from bench.topics import Filling
from bench.workload import Job, Workload

CORES = 2
MOST = 100_000
"""Maximum number of records of a micro-batch."""
AUDIT = "spark_jobs.delivery_audit"
CONTENDER = "spark_pydantic"
"""Name of the contender. Because the name ends with ``pydantic``, ``bench.fill`` makes JSON bodies."""
REPEATED = 50
"""Of this number of records, one is in the queue twice."""
LATER = 1_000
"""Number of records between a record and its repetition."""


@dataclass(frozen=True)
class Contents:
    """What a queue holds."""

    records: int
    messages: int
    dialogs: int


def filled(job: Job) -> Contents:
    """Create both services, and fill the queue of the service whose dialogs are read."""
    fill.declare(job)
    topics.fill(job.bootstrap, repeated(fill.messages(job)))
    return contents_of(job.workload)


def contents_of(load: Workload) -> Contents:
    """Return what the queue of a workload holds."""
    twice = (load.messages + REPEATED - 1) // REPEATED
    return Contents(load.messages + twice, load.messages, min(load.dialogs, load.messages))


def repeated(records: Iterator[Filling]) -> Iterator[Filling]:
    """Yield every record. Yield one of ``REPEATED`` records a second time, ``LATER`` records later, as if a producer had sent it twice."""
    waiting: deque[tuple[int, Filling]] = deque()
    for number, record in enumerate(records):
        if number % REPEATED == 0:
            waiting.append((number + LATER, record))
        yield record
        if waiting[0][0] <= number:
            yield waiting.popleft()[1]
    for _, record in waiting:
        yield record


def expected(name: str, contents: Contents) -> int:
    """Return the number of rows that a query must make."""
    if name in {"plain", "decoded", "judged", "plain_stream", "judged_stream"}:
        return contents.records
    return contents.dialogs if name == "in_order" else contents.messages
