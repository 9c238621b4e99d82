"""Which partition a key belongs to, for columns of keys: Kafka's murmur2, vectorised (``protocol.topics`` has it for one)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import IntegerType

Words = np.ndarray[Any, np.dtype[np.uint32]]

_SEED, _M = np.uint32(0x9747B28C), np.uint32(0x5BD1E995)


def _partition_of(keys: pa.Array, counts: pa.Array) -> pa.Array:
    return pa.array(partitions_of(keys, counts.to_numpy(zero_copy_only=False)), mask=np.asarray(keys.is_null()))


partition_of: Callable[..., Column] = arrow_udf(_partition_of, IntegerType())  # type: ignore[call-overload]  # the stubs want a constant they do not export
"""Return the partition, of so many, that each key of a column belongs to; null for no key."""


def partitions_of(keys: pa.Array, counts: Words) -> Words:
    """Return the partition of each key of an Arrow array of binaries; meaningless where a key is null."""
    offsets, data = _bytes_of(keys)
    lengths = np.diff(offsets)
    hashes = np.zeros(len(keys), np.uint32)
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        places = offsets[rows][:, None] + np.arange(length)
        hashes[rows] = murmur2(data[places])
    found: Words = ((hashes & np.uint32(0x7FFFFFFF)) % np.maximum(counts, 1).astype(np.uint32)).astype(np.int32)
    return found


def murmur2(keys: Any) -> Words:
    """Hash keys of one length: a matrix of bytes, a row for each."""
    count, length = keys.shape
    whole = length & ~3
    with np.errstate(over="ignore"):
        h = np.full(count, _SEED ^ np.uint32(length), np.uint32)
        words = np.ascontiguousarray(keys[:, :whole]).view("<u4")
        for word in words.T:
            k = word * _M
            k = (k ^ (k >> np.uint32(24))) * _M
            h = h * _M ^ k
        if whole != length:
            for at in range(whole, length):
                h ^= keys[:, at].astype(np.uint32) << np.uint32(8 * (at - whole))
            h *= _M
        h = (h ^ (h >> np.uint32(13))) * _M
        found: Words = h ^ (h >> np.uint32(15))
    return found


def _bytes_of(keys: pa.Array) -> tuple[Any, Any]:
    """Return the offsets and the bytes of an array of binaries, without copying either."""
    wide = pa.types.is_large_binary(keys.type)
    _, offsets, data = keys.buffers()
    places = np.frombuffer(offsets, np.int64 if wide else np.int32)[keys.offset : keys.offset + len(keys) + 1]
    return places, np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
