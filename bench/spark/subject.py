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
"""Records of a micro-batch."""
AUDIT = "spark_jobs.delivery_audit"
CONTENDER = "spark_pydantic"
"""By its end bodies are JSON (``bench.fill``)."""
REPEATED = 50
"""One record in so many comes twice, ..."""
LATER = 1_000
"""... the second time so many records later."""


@dataclass(frozen=True)
class Contents:
    """What a queue holds."""

    records: int
    messages: int
    dialogs: int


def filled(job: Job) -> Contents:
    """Create the services and fill the queue of the one whose dialogs are read."""
    fill.declare(job)
    topics.fill(job.bootstrap, repeated(fill.messages(job)))
    return contents_of(job.workload)


def contents_of(load: Workload) -> Contents:
    """Say what a queue of so many messages holds."""
    twice = (load.messages + REPEATED - 1) // REPEATED
    return Contents(load.messages + twice, load.messages, min(load.dialogs, load.messages))


def repeated(records: Iterator[Filling]) -> Iterator[Filling]:
    """Put one record in ``REPEATED`` on the wire again, ``LATER`` records later, as a mirror or a producer might."""
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
    """Rows that a query must make."""
    if name in {"plain", "decoded", "judged", "plain_stream", "judged_stream"}:
        return contents.records
    return contents.dialogs if name == "in_order" else contents.messages
