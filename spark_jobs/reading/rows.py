"""Rows of state topics: the state of owners, with endpoints, parks and partitions.

The function ``read_history`` reads one row for each record of the topics. The function ``read_rows`` reads only the newest row of
each key. Columns:

    service, partition            service and partition of the state
    row                           first letter of the key: E endpoint or tombstone, F park, R parked, W waiting, ...
    conversation_id, initiator    side of a dialog; null if the row is not about a dialog
    number                        H, D: message number; U: number of the first message; R: place among the parked rows of its dialog;
                                  W: place among the waiting rows; L: offset of the letter's source
    key, value                    as in the topic; a null value deletes the row
    offset, written_at            offset and log time
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it
from pyspark.sql.avro.functions import from_avro

from conversations import schemas
from conversations.protocol.registry import HEAD_SIZE, MARKER, fingerprint
from conversations.protocol.topics import STATE, service_topic
from spark_jobs.errors import SourceError
from spark_jobs.reading.identifiers import uuid_text
from spark_jobs.reading.wire import Wire

_IDENTITY_START, _NUMBER_START = 2, 19
"""Two positions in a key: the first byte of the identity of a side, and the first byte of the number. Key bytes are counted from 1."""


def read_history(spark: SparkSession, wire: Wire, services: Iterable[str]) -> DataFrame:
    """Read every record of state topics that compaction has not removed, deletions (null values) included.

    Raises:
        SourceError: the catalog does not know a service.
    """
    topics = {}
    for service in services:
        wire.partitions(service)
        topics[service_topic(wire.kafka.namespace, service, STATE)] = service
    return history_of(wire.read(spark, topics), topics)


def history_of(records: DataFrame, topics: Mapping[str, str]) -> DataFrame:
    """Make rows from records of state topics; ``topics`` has the service of each topic."""
    name = F.create_map(*(F.lit(it) for pair in topics.items() for it in pair))
    kind = F.substring("key", 1, 1).cast("string")
    sided = kind.isin("E", "H", "D", "F", "R", "T", "U")
    return records.select(
        name[F.col("topic")].alias("service"), "partition", kind.alias("row"),
        F.when(sided, uuid_text(F.substring("key", _IDENTITY_START, 16))).alias("conversation_id"),
        F.when(sided, F.hex(F.substring("key", _NUMBER_START - 1, 1)) == "01").alias("initiator"),
        F.when(kind.isin("H", "D", "R", "U"), _long("key", _NUMBER_START))
        .when(kind == "W", _long("key", 2))
        .when(kind == "L", _long("key", 3)).alias("number"),
        "key", "value", "offset", F.col("timestamp").alias("written_at"),
    )  # fmt: skip


def services_of(wire: Wire, wanted: str | None) -> list[str]:
    """Return the names of the services of a namespace, or only the wanted name.

    Raises:
        SourceError: the catalog does not know the service, or has no service.
    """
    if wanted is not None:
        wire.partitions(wanted)
        return [wanted]
    if not wire.catalog.services:
        raise SourceError(f"namespace {wire.kafka.namespace!r} has no services: 'conversations apply' makes them")
    return sorted(wire.catalog.services)


def newest(history: DataFrame) -> DataFrame:
    """Keep the newest row of each key, without deleted rows."""
    rest = [name for name in history.columns if name not in {"service", "partition", "key"}]
    last = F.max_by(F.struct(*rest), "offset").alias("last")
    found = history.groupBy("service", "partition", "key").agg(last)
    return found.select("service", "partition", "key", "last.*").where("value is not null").select(*history.columns)


def read_rows(spark: SparkSession, wire: Wire, services: Iterable[str], kinds: str = "") -> DataFrame:
    """Read the current rows of state topics. ``kinds`` has the letters of the wanted kinds; empty: all kinds."""
    history = read_history(spark, wire, services)
    return newest(history.where(F.col("row").isin(*kinds)) if kinds else history)


def fields_of(name: str, value: Column | None = None) -> Column:
    """Decode a row's value by the schema ``name`` ("endpoint", "tombstone", "park", "waiting", "unacknowledged", "partition").

    The result is a struct with the fields of the newest version; null if the bytes have another schema. Some
    of its times are eight bytes (``wake``, ``forget_at``, ``due``). Read them with ``instant_of``.
    """
    value = F.col("value") if value is None else value
    reader = schemas.load(name, schemas.newest(name))
    body = F.substring(value, HEAD_SIZE + 1, 1 << 30)
    found = F.lit(None)
    for version in schemas.VERSIONS[name]:
        writer = schemas.load(name, version)
        mine = F.substring(value, 1, HEAD_SIZE) == F.lit(bytearray(MARKER + fingerprint(writer)))
        options = {"mode": "PERMISSIVE", "avroSchema": json.dumps(reader)}
        found = F.when(mine, from_avro(body, json.dumps(writer), options)).otherwise(found)
    return found


def is_tombstone() -> Column:
    """Return a column that is true if an E row is a tombstone of any version, false if it is an endpoint."""
    heads = (MARKER + fingerprint(schemas.load("tombstone", version)) for version in schemas.VERSIONS["tombstone"])
    return F.substring("value", 1, HEAD_SIZE).isin(*(F.lit(bytearray(head)) for head in heads))


def instant_of(instant: Column) -> Column:
    """Read eight bytes as microseconds since 1970."""
    return F.conv(F.hex(instant), 16, 10).cast("long")


def _long(column: str, start: int) -> Column:
    return F.conv(F.hex(F.substring(column, start, 8)), 16, 10).cast("long")
