"""Drops duplicates with Arrow: of a batch without a shuffle, of a stream in ``foreachBatch`` with the identities of seen messages in files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame

from spark_jobs.reading.messages import IDENTITY

KINDS = pa.array(["MESSAGE", "END", "ERROR"])
IDENTITY_BYTES = 26
"""16 for the conversation id, 8 for the number, 1 for the direction, 1 for the kind."""


def once_in_place(messages: DataFrame) -> DataFrame:
    """Return the messages of a batch without duplicates. Each task remembers the messages that it has seen, and nothing is shuffled.

    All records of a dialog must be in one task, in the order of the log. This is so if each task reads one partition of Kafka.
    """
    return messages.mapInArrow(_first_in_task, messages.schema)


def _first_in_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    seen: set[tuple[Any, ...]] = set()
    for found in batches:
        keep = []
        for identity in zip(*(found.column(name).to_pylist() for name in IDENTITY), strict=True):
            keep.append(identity not in seen)
            seen.add(identity)
        yield found if all(keep) else found.filter(pa.array(keep))


class Seen:
    """The identities of the messages of earlier batches, in a directory that all of Spark's processes can reach."""

    def __init__(self, directory: Path, partitions: int) -> None:
        self._directory, self._partitions = directory, partitions

    def once(self, messages: DataFrame, number: int) -> DataFrame:
        """Return a batch without duplicates, and without messages of earlier batches. A batch that runs again gives the same result."""
        # A dialog is always in the same partition of Spark, and in that partition its messages are in the order of the log.
        dealt = messages.repartition(self._partitions, "conversation_id").sortWithinPartitions("offset")
        return dealt.mapInArrow(lambda batches: self._unseen(batches, number), messages.schema)

    def _unseen(self, batches: Iterable[pa.RecordBatch], number: int) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        place = self._directory / "state" / str(context.partitionId())
        place.mkdir(parents=True, exist_ok=True)
        known = [_loaded(path) for path in place.iterdir() if path.suffix == ".npy" and int(path.stem) < number]
        table = pa.Table.from_batches(list(batches))
        if not len(table):
            return
        mine = identities(table)
        codes = mine.dictionary_encode().indices
        _, firsts = np.unique(codes.to_numpy(), return_index=True)
        keep = np.zeros(len(table), bool)
        keep[firsts] = True
        if known:
            seen = pc.is_in(mine, value_set=pa.concat_arrays(known))
            keep &= ~seen.to_numpy(zero_copy_only=False)
        _store(place / f"{number}.npy", mine.filter(pa.array(keep)))
        yield from table.filter(pa.array(keep)).to_batches()


def identities(table: pa.Table) -> pa.Array:
    """Return the identity of each message, in 26 bytes."""
    count = len(table)
    found = np.empty((count, IDENTITY_BYTES), np.uint8)
    found[:, :16] = np.frombuffer(b"".join(table["conversation_id"].to_pylist()), np.uint8).reshape(count, 16)
    numbers = pc.fill_null(table["sequence"], -1).to_numpy()
    found[:, 16:24] = np.ascontiguousarray(numbers).view(np.uint8).reshape(count, 8)
    found[:, 24] = table["to_target"].to_numpy()
    found[:, 25] = pc.index_in(table["kind"], value_set=KINDS).to_numpy()
    return _as_array(found)


def _as_array(rows: Any) -> pa.Array:
    return pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(IDENTITY_BYTES), len(rows), [None, pa.py_buffer(np.ascontiguousarray(rows))]
    )


def _loaded(path: Path) -> pa.Array:
    return _as_array(np.load(path))


def _store(path: Path, new: pa.Array) -> None:
    rows = np.frombuffer(b"".join(new.to_pylist()), np.uint8).reshape(len(new), IDENTITY_BYTES)
    with path.open("wb") as file:
        np.save(file, rows)
