"""The hops of requests that were made one at a time, by the log times of their records."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from statistics import mean

from bench.topics import read
from conversations.errors import UndecodableRecord
from conversations.protocol.envelope import Kind
from conversations.testing.said import said

HOPS = (
    "asked: its command is in the log",
    "the client's worker: the question is in the log",
    "front: its own question is in the log",
    "back: the answer to it is in the log",
    "front: the answer is in the log",
    "committed, read, and told",
)
"""What has happened at the end of each hop."""
Spans = Sequence[tuple[float, float]]
"""Begin and end of each request, in seconds since 1970."""


def profile(bootstrap: str, topics: Mapping[str, int], spans: Spans) -> list[float]:
    """Return how long each hop took on average, in milliseconds.

    Args:
        bootstrap: address of the broker.
        topics: the number of partitions of each topic that a request passes.
        spans: the requests. Only one was under way at a time, so the records between begin and end are its records.
    """
    times = sorted(at for topic, partitions in topics.items() for at in _messages(bootstrap, topic, partitions))
    rows = [row for begin, end in spans if len(row := _row(times, begin * 1_000, end * 1_000)) == len(HOPS) + 1]
    return [round(mean(it[at + 1] - it[at] for it in rows), 2) for at in range(len(HOPS))] if rows else []


def _row(times: Sequence[float], begin: float, end: float) -> list[float]:
    """Return the times of a request: its begin, its records, its end. Log times are in whole milliseconds."""
    first, last = bisect_left(times, begin - 1), bisect_right(times, end + 1)
    return [begin, *times[first:last], end]


def _messages(bootstrap: str, topic: str, partitions: int) -> Iterator[float]:
    """Yield the times of the messages of a topic in milliseconds. Acknowledgements and ends are left out."""
    for record in read(bootstrap, topic, partitions):
        if _kind(record.value()) in {None, Kind.MESSAGE}:
            yield record.timestamp()[1]


def _kind(value: bytes | None) -> Kind | None:
    """Return the kind of an envelope; None for a record of the bare chain."""
    try:
        return said(value).kind
    except UndecodableRecord:
        return None
