"""Which partition a key belongs to, as a column: Kafka's murmur2 (``protocol.topics`` has it for one key)."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

_MURMUR2 = ("org.apache.commons.codec.digest.MurmurHash2", "hash32")
"""Hashes the UTF-8 of a text as Kafka's Java client does; a jar that Spark itself is built with."""


def partition_of(key: Column, count: Column) -> Column:
    """Return the partition, of so many, that each key belongs to; only for keys that are UTF-8.

    A function of Python's would cost as much as decoding the envelope. What is called by reflection is left out of whole-stage
    code, and with it the checks beside it: as short methods they are compiled by the virtual machine, while as one of more
    than 8,000 bytes they would be interpreted, and the query takes more than twice as long.
    """
    text = F.coalesce(key.cast("string"), F.lit(""))
    hashed = F.reflect(*(F.lit(name) for name in _MURMUR2), text).cast("int")
    return hashed.bitwiseAND(0x7FFFFFFF) % count
