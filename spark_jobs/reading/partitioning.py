"""Partitions of keys, as a column, by Kafka's murmur2. ``conversations.protocol.topics`` computes the partition of one key."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

_MURMUR2 = ("org.apache.commons.codec.digest.MurmurHash2", "hash32")
"""Class and method that hash the UTF-8 of a text as Kafka's Java client does. Spark itself brings the jar."""


def partition_of(key: Column, count: Column) -> Column:
    """Return the partition of each key, if there are ``count`` partitions. Keys must be UTF-8.

    The hash is a Java method, which Spark calls by reflection. A Python function would cost as much as decoding the envelope.
    Because of this call, Spark generates no whole-stage code for the checks next to it. This makes the query faster: whole-stage
    code would be one method of more than 8,000 bytes, which the JVM does not compile, and the query would take more than twice as
    long. Without whole-stage code the checks are short methods, which the JVM compiles.
    """
    text = F.coalesce(key.cast("string"), F.lit(""))
    hashed = F.reflect(*(F.lit(name) for name in _MURMUR2), text).cast("int")
    return hashed.bitwiseAND(0x7FFFFFFF) % count
