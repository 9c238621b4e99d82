"""The messages of dialogs as DataFrames: each once, typed; and whole dialogs, in order.

One row per message, END or ERROR:

    conversation_id   string     the dialog's id, as everywhere
    to_target         boolean    which of its two directions: from the side that began it, or to that
    sequence          long       its number in the direction, from 0; null for an ERROR the broker itself sent
    kind              string     MESSAGE, END or ERROR
    type              string     message type; empty for an END or ERROR
    sent_at           timestamp  by the sender's clock
    appended_at       timestamp  by the log's
    contract, from_service, to_service, service   strings; ``service`` is the one that was called
    code, description            of an ERROR: negative codes are the system's
    expires_at        timestamp  when the dialog's lifetime ends, the same for all of it; null: it has no end
    content_type, content        how the body is written, and its bytes
    key                          of the conversation group it is for, by default the dialog's id
    topic, partition, offset     where it stands

``body``, with a contract, is a struct with a field for each message type, null but for the message's own; all of them are
null when the bytes are not what the type says.

A record is a message when an owner would take it: an envelope whose header says the same, in the partition and at the
service it belongs to. All others are in ``set_aside``. Of several records with one number the first in the log counts, as
it does for the owner. Whether the message was handled, skipped or came after the end is not said here: see
``spark_jobs.delivery_audit``.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from conversations.config import Kafka
from conversations.protocol.contract import Contract
from spark_jobs.reading.messages import (
    IDENTITY,
    concerns,
    is_message,
    judged_records,
    message_columns,
    named,
    once,
    typed,
)
from spark_jobs.reading.wire import Moment, Wire

REMEMBERED = timedelta(days=1)
"""How long a stream remembers numbers, in the log's time."""


def read_dialogs(
    spark: SparkSession,
    *,
    bootstrap: str | Kafka,
    service: str | None = None,
    contract: Contract | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Read the messages of dialogs that are in Kafka now, each exactly once within one read.

    Both directions of every dialog that ``service`` takes part in (of all without one), under ``contract`` (under any
    without one, and without ``body``). Costs one shuffle of the messages by dialog. A dialog that began before ``since``
    begins in the middle.

    ``bootstrap`` is the address of some brokers, or a ``Kafka`` with its namespace and settings; ``since`` and ``until`` are
    moments of the log's time, by default its oldest record and now; ``options`` are further ones of Spark's Kafka source.

    Raises:
        SourceError: no such service or contract, or Kafka does not answer.
    """
    wire = _wire(bootstrap, options)
    talkers = wire.talkers(service, contract.name if contract else None)
    records = wire.read(spark, map(wire.queue, talkers), since, until)
    messages = _messages(judged_records(wire, talkers, records), service, contract)
    # Ids are text before the shuffle: so what groups by them afterwards, as in_order does, needs no other.
    return typed(once(named(messages)), contract)


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
    """Follow the messages of dialogs, each exactly once as long as its duplicates come within ``remember`` of it.

    Rows are as ``read_dialogs`` has them, and leave the query once: what is written more than once after a crash is the
    sink's affair (``foreachBatch`` knows its batch by number). ``remember`` is log time; each message costs a row of state,
    about 100 bytes on the executors' disks, for so long. Duplicates from producers and mirrors come within minutes; for
    those of a replayed topic give its retention. ``most`` bounds the records of a batch, so that a long backlog is read in
    pieces; the other arguments are those of ``read_dialogs``.

    Raises:
        SourceError: as ``read_dialogs``.
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
    """Read the records of queues that are no part of any dialog, with their bytes and why.

    Columns: topic, partition, offset, timestamp, key, value, headers, why. Arguments as of ``read_dialogs``.
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
    """Follow the records of queues that are no part of any dialog, as ``read_set_aside`` has them."""
    wire = _wire(bootstrap, options)
    talkers = wire.talkers(service, None)
    return set_aside(judged_records(wire, talkers, wire.stream(spark, map(wire.queue, talkers), since)))


def in_order(messages: DataFrame) -> DataFrame:
    """Put messages together to one row per dialog and direction.

    Columns: conversation_id, to_target, service, contract, from_service, to_service, key, ``messages`` (structs in the order of
    their numbers, END included), ``count``, ``first_at`` and ``last_at`` (log time), ``day`` it began,
    ``gaps`` (array of ``{first, last}`` numbers that are missing), ``ended`` (null, END or ERROR), ``code``,
    ``description``, and ``complete``: it begins at 0, has no gaps, and ended.
    """
    direction = ["conversation_id", "to_target"]
    inner = [name for name in messages.columns if name not in {*direction, *_CONSTANT}]
    numbers = Window.partitionBy(*direction).orderBy("sequence")
    before = F.coalesce(F.lag("sequence").over(numbers), F.lit(-1))
    found = messages.withColumn(
        "gap",
        F.when(
            F.col("sequence") > before + 1, F.struct((before + 1).alias("first"), (F.col("sequence") - 1).alias("last"))
        ),
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
    """Keep the records that are no part of any dialog."""
    return judged.where(F.col("why").isNotNull()).drop("envelope", "timestampType")


def _wire(bootstrap: str | Kafka, options: Mapping[str, str] | None) -> Wire:
    return Wire(bootstrap if isinstance(bootstrap, Kafka) else Kafka(bootstrap), options or {})


def _messages(judged: DataFrame, service: str | None, contract: Contract | None) -> DataFrame:
    """Keep the numbered envelopes and the broker's own errors of the wanted dialogs; ids stay 16 bytes."""
    wanted = is_message()
    if contract is not None:
        wanted &= F.col("envelope.contract") == contract.name
    if service is not None:
        wanted &= concerns(service)
    return judged.where(wanted).select(*message_columns())
