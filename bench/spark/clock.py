"""Runs a query to its end and measures how long it takes. The rows are thrown away."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

Told = dict[str, Any]
"""``records`` read in ``seconds``; ``rows`` made, if they were counted; ``state_bytes`` of a stream on disk."""
Each = Callable[[DataFrame, int], DataFrame]
"""A function that makes the result of a micro-batch from its rows and its number."""


def batch(frame: DataFrame, records: int, *, counted: bool) -> Told:
    """Run a query over ``records`` records: count its rows, or measure its time. Counting costs a little, so a run never does both."""
    rows = _discard(frame) if counted else None
    began = time.perf_counter()
    if not counted:
        _write(frame)
    return {"records": records, "seconds": time.perf_counter() - began, "rows": rows}


def _write(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _discard(frame: DataFrame) -> int:
    """Run a query, throw its rows away, and return their number."""
    seen = Observation()
    _write(frame.observe(seen, F.count(F.lit(1)).alias("rows")))
    return int(seen.get["rows"])


def stream(frame: DataFrame, directory: Path, *, counted: bool, each: Each | None = None) -> Told:
    """Run a stream over all records. The first micro-batch makes the state and the code, so it is not part of the measured time."""
    counts: list[int] = []
    made = frame.observe("seen", F.count(F.lit(1)).alias("rows")) if counted and each is None else frame
    writer = made.writeStream.option("checkpointLocation", str(directory / "checkpoint")).trigger(availableNow=True)
    if each is None:
        query = writer.format("noop").start()
    else:
        query = writer.foreachBatch(_batch_writer(each, counts, counted=counted)).start()
    _await(query)
    batches = [it for it in query.recentProgress if it.numInputRows]
    if each is None and counted:
        counts = [it.observedMetrics["seen"]["rows"] for it in query.recentProgress if "seen" in it.observedMetrics]
    return {**_steady(batches), "rows": sum(counts) if counted else None, "state_bytes": _size(directory)}


def _batch_writer(each: Each, counts: list[int], *, counted: bool) -> Callable[[DataFrame, int], None]:
    def write(rows: DataFrame, number: int) -> None:
        if counted:
            counts.append(_discard(each(rows, number)))
        else:
            _write(each(rows, number))

    return write


def _await(query: StreamingQuery) -> None:
    try:
        query.awaitTermination()
    finally:
        query.stop()


def _steady(batches: Sequence[StreamingQueryProgress]) -> Told:
    chosen = batches[1:] or batches
    seconds = sum(it.durationMs["triggerExecution"] for it in chosen) / 1_000
    return {"records": sum(it.numInputRows for it in chosen), "seconds": seconds}


def _size(directory: Path) -> int:
    """Return the size in bytes of the files in which a query keeps the identities of the messages that it has read."""
    return sum(
        it.stat().st_size for it in directory.rglob("*")
        if it.is_file() and "state" in it.relative_to(directory).parts
    )  # fmt: skip
