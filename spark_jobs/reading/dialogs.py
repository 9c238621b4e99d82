"""Messages of dialogs as DataFrames: each message once, with a typed body; and whole dialogs, in order.

There is one row for each message, END or ERROR:

    conversation_id   string     id of the dialog, as text
    to_target         boolean    direction: true from the initiator to the target, false from the target to the initiator
    sequence          long       number in the direction, from 0; null for an ERROR without a number, which a worker sent by itself
    fragments         int        number of records in which the message came. They have the numbers up to ``sequence``
    kind              string     MESSAGE, END or ERROR
    type              string     message type; empty for an END or ERROR
    sent_at           timestamp  time by the sender's clock
    appended_at       timestamp  log time
    contract, from_service, to_service, service   strings; ``service`` is the target of the dialog
    code, description            code and text of an ERROR; negative codes are the system's
    expires_at        timestamp  end of the dialog's lifetime as its sender knew it; null: unlimited. An answer may have an earlier end
    content_type, content        format of the body, and its bytes
    key                          key of the receiver's conversation group, by default the dialog's id
    topic, partition, offset     place of the record

With a contract there is also ``body``: a struct with a field for each message type. Only the field of the message's own type is
filled. If the bytes do not fit that type, all fields are null.

A record is a message if an owner of this release would accept it: it is an envelope, and it is in the queue of the receiver, in the
partition of its key. All other records are set aside: see ``read_set_aside``. If several records have the same number, only the first
in the log counts. The owner judges in the same way. The rows do not tell whether a message was handled,
was skipped, or came after the end: see ``spark_jobs.delivery_audit``.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from functools import reduce

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from conversations.config import Kafka
from conversations.protocol.contract import Contract
from spark_jobs.reading.clusters import Settings
from spark_jobs.reading.clusters import clusters as clusters_of
from spark_jobs.reading.messages import (
    IDENTITY,
    concerns,
    is_message,
    judged_records,
    message_columns,
    named,
    once,
    typed,
    whole,
)
from spark_jobs.reading.wire import Moment, Wire

REMEMBERED = timedelta(days=1)
"""Log time for which a stream remembers numbers."""


def read_dialogs(
    spark: SparkSession,
    *,
    bootstrap: str | Kafka,
    service: str | None = None,
    contract: Contract | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    options: Mapping[str, str] | None = None,
    clusters: Mapping[str, Settings] | None = None,
) -> DataFrame:
    """Read the messages of dialogs that are in Kafka now, each exactly once within one read.

    The result has both directions of every dialog in which ``service`` takes part, under ``contract``. Without ``service`` it
    has the dialogs of all services. Without ``contract`` it has all contracts, and no ``body``. A read costs one shuffle of the
    messages by dialog. If a dialog began before ``since``, only its messages from ``since`` on are read.

    ``bootstrap`` is the address of some brokers, or a ``Kafka`` with its namespace and settings. ``since`` and ``until`` are log
    times; by default the oldest and the newest record are included. ``options`` are further options of Spark's Kafka source.

    ``clusters`` are other clusters to which the catalog has routes: their names, each with its settings of librdkafka (``{}`` if it needs no
    login). Then dialogs with services there have both directions, too.

    Raises:
        SourceError: there is no such service, contract or cluster, or Kafka does not answer.
    """
    parts = clusters_of(_wire(bootstrap, options), clusters or {}).parts(service, contract.name if contract else None)
    judged = (
        judged_records(it.wire, it.services, it.wire.read(spark, map(it.wire.queue, it.services), since, until))
        for it in parts
    )
    messages = reduce(DataFrame.unionByName, (_messages(it, service, contract) for it in judged))
    # Ids become text after the shuffle: 16 bytes are sorted faster than 36 characters, which mostly begin alike.
    return typed(named(whole(once(messages))), contract)


def stream_dialogs(
    spark: SparkSession,
    *,
    bootstrap: str | Kafka,
    service: str | None = None,
    contract: Contract | None = None,
    since: Moment | None = None,
    remember: timedelta = REMEMBERED,
    most: int | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Follow the messages of dialogs. Each message comes exactly once if its duplicates follow within ``remember``.

    The rows are like the rows of ``read_dialogs``, with one difference: a message in fragments has a row for each fragment, and the column
    ``fragment`` counts them from 0. Each row leaves the query once. After a crash Spark may give the sink a batch
    again. The sink must recognise this batch (``foreachBatch`` gets the number of the batch).

    The argument ``remember`` is log time. For this time each message needs a row of state, about 100 bytes on the executors' disks.
    Duplicates from producers and mirrors come within minutes. For duplicates from a replayed topic, set ``remember`` to the topic's
    retention. The argument ``most`` is the maximum number of records in a batch, so that a long backlog is read in pieces. The other
    arguments are the same as in ``read_dialogs``.

    Raises:
        SourceError: there is no such service or contract, or Kafka does not answer.
    """
    wire = _wire(bootstrap, options)
    talkers = wire.talkers(service, contract.name if contract else None)
    records = wire.stream(spark, map(wire.queue, talkers), since, most)
    messages = _messages(judged_records(wire, talkers, records), service, contract)
    kept = messages.withWatermark("appended_at", f"{int(remember.total_seconds())} seconds")
    return typed(named(kept.dropDuplicatesWithinWatermark(IDENTITY)), contract)


def read_set_aside(
    spark: SparkSession,
    *,
    bootstrap: str | Kafka,
    service: str | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Read the records of queues that belong to no dialog, with their bytes and the reason.

    Columns: topic, partition, offset, timestamp, key, value, headers, why. The arguments are the same as in ``read_dialogs``.
    """
    wire = _wire(bootstrap, options)
    talkers = wire.talkers(service, None)
    return set_aside(judged_records(wire, talkers, wire.read(spark, map(wire.queue, talkers), since, until)))


def stream_set_aside(
    spark: SparkSession,
    *,
    bootstrap: str | Kafka,
    service: str | None = None,
    since: Moment | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Follow the records of queues that belong to no dialog, with the columns of ``read_set_aside``."""
    wire = _wire(bootstrap, options)
    talkers = wire.talkers(service, None)
    return set_aside(judged_records(wire, talkers, wire.stream(spark, map(wire.queue, talkers), since)))


def in_order(messages: DataFrame) -> DataFrame:
    """Put messages together: one row per dialog and direction.

    Columns: conversation_id, to_target, service, contract, from_service, to_service, key, ``messages`` (structs in the order of
    their numbers, END included), ``count``, ``first_at`` and ``last_at`` (log time), ``day`` (of ``first_at``),
    ``gaps`` (array of ``{first, last}``: ranges of missing numbers), ``ended`` (null, END or ERROR), ``code``,
    ``description``, and ``complete`` (the direction begins at 0, has no gaps, and has ended).
    """
    direction = ["conversation_id", "to_target"]
    inner = [name for name in messages.columns if name not in {*direction, *_CONSTANT}]
    numbers = Window.partitionBy(*direction).orderBy("sequence")
    before = F.coalesce(F.lag("sequence").over(numbers), F.lit(-1))
    first = F.col("sequence") - F.col("fragments") + 1
    found = messages.withColumn(
        "gap", F.when(first > before + 1, F.struct((before + 1).alias("first"), (first - 1).alias("last")))
    )
    ends = F.col("kind") != "MESSAGE"
    grouped = found.groupBy(*direction).agg(
        *(F.first(name).alias(name) for name in _CONSTANT),
        F.array_sort(F.collect_list(F.struct(*inner))).alias("messages"),
        F.count("*").alias("count"),
        F.min("appended_at").alias("first_at"),
        F.max("appended_at").alias("last_at"),
        F.array_sort(F.collect_list("gap")).alias("gaps"),
        F.max(F.when(ends, F.struct("kind", "code", "description"))).alias("end"),
    )
    whole = (F.size("gaps") == 0) & F.col("end.kind").isNotNull()
    return grouped.select(
        "*", F.to_date("first_at").alias("day"), F.col("end.kind").alias("ended"), F.col("end.code").alias("code"),
        F.col("end.description").alias("description"), whole.alias("complete"),
    ).drop("end")  # fmt: skip


_CONSTANT = ("service", "contract", "from_service", "to_service", "key")
"""Columns that are the same for all messages of a direction."""


def set_aside(judged: DataFrame) -> DataFrame:
    """Keep the records that belong to no dialog."""
    return judged.where(F.col("why").isNotNull()).drop("envelope", "timestampType")


def _wire(bootstrap: str | Kafka, options: Mapping[str, str] | None) -> Wire:
    return Wire(bootstrap if isinstance(bootstrap, Kafka) else Kafka(bootstrap), options or {})


def _messages(judged: DataFrame, service: str | None, contract: Contract | None) -> DataFrame:
    """Keep the messages, ENDs and ERRORs of the wanted dialogs. Ids stay 16 bytes."""
    wanted = is_message()
    if contract is not None:
        wanted &= F.col("envelope.contract") == contract.name
    if service is not None:
        wanted &= concerns(service)
    return judged.where(wanted).select(*message_columns())
