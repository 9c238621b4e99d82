"""Messages from records of queues, for ``spark_jobs.reading.dialogs`` and the jobs."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from conversations.protocol.contract import Contract
from spark_jobs.reading.bodies import body_of
from spark_jobs.reading.envelopes import decode, judge, writer_schemas
from spark_jobs.reading.identifiers import uuid_text
from spark_jobs.reading.integrity import undamaged
from spark_jobs.reading.wire import Wire

IDENTITY = ["conversation_id", "to_target", "sequence", "kind"]
"""Columns that identify a message. All records that repeat the message have the same values."""


def judged_records(wire: Wire, talkers: Iterable[str], records: DataFrame) -> DataFrame:
    """Decode records of services' queues, leave damaged ones out, and judge the others as ``spark_jobs.reading.envelopes`` describes."""
    queues = {wire.queue(name): (name, wire.partitions(name)) for name in talkers}
    decoded = decode(records, writer_schemas(wire.catalog.schemas))
    return judge(undamaged(decoded, wire.catalog.routes), queues)


def is_message() -> Column:
    """Return a column that is true if a judged record is a valid message, END or ERROR."""
    return F.col("why").isNull() & F.col("envelope.kind").isin("MESSAGE", "END", "ERROR")


def concerns(service: str) -> Column:
    """Return a column that is true if a service takes part in the dialog of an envelope."""
    e = F.col("envelope")
    return (e.from_service == service) | (e.to_service == service)


def message_columns() -> list[Column]:
    """Return the columns of a message, from a judged record."""
    e = F.col("envelope")
    return [
        e.conversation_id.alias("conversation_id"), e.from_initiator.alias("to_target"),
        F.when(e.seq >= 0, e.seq).alias("sequence"), e.kind.alias("kind"), e.message_type.alias("type"),
        e.sent_at.alias("sent_at"), F.col("timestamp").alias("appended_at"), e.contract.alias("contract"),
        e.from_service.alias("from_service"), e.to_service.alias("to_service"),
        F.when(e.from_initiator, e.to_service).otherwise(e.from_service).alias("service"),
        e.code.alias("code"), e.description.alias("description"),
        F.when(e.expires_at >= F.timestamp_micros(F.lit(0)), e.expires_at).alias("expires_at"),
        e.content_type.alias("content_type"), e.body.alias("content"), e.fragment.alias("fragment"), e.fragments.alias("fragments"),
        F.try_validate_utf8(F.col("key").cast("string")).alias("key"), F.col("topic"), F.col("partition"), F.col("offset"),
    ]  # fmt: skip


def once(messages: DataFrame) -> DataFrame:
    """Keep the first record of each number of a dialog and direction, and all records that belong to no dialog."""
    same = Window.partitionBy("conversation_id").orderBy("to_target", "sequence", "kind", "offset")
    repeated = F.col("conversation_id").isNotNull()
    for name in IDENTITY[1:]:
        repeated &= F.lag(name).over(same).eqNullSafe(F.col(name))
    return messages.withColumn("repeated", repeated).where(~F.col("repeated")).drop("repeated")


def whole(messages: DataFrame) -> DataFrame:
    """Join the fragments of each message. The row of the message is the row of its last fragment, with the whole content.

    Fragments of a message that is not whole are left out. The shuffle of ``once`` serves here, too: its partitions have whole dialogs.

    The two branches must need the same columns of ``messages``, whatever columns the caller selects: then Spark reads Kafka and shuffles
    once for both. So both look at ``fragment``, and each column is an aggregate of its own, which the optimizer can leave out.
    """
    is_cut = (F.col("fragments") > 1) | (F.col("fragment") > 0)
    names = [name for name in messages.columns if name != "fragment"]
    of_message = ["conversation_id", "to_target", "message"]
    rest = [name for name in names if name not in {*of_message, "content"}]
    found = messages.where(is_cut).withColumn("message", F.col("sequence") + F.col("fragments") - F.col("fragment"))
    # Spark has no aggregate that joins bytes, but one that joins texts.
    parts = F.array_sort(F.collect_list(F.struct("fragment", F.hex("content").alias("hex"))))
    joined = found.groupBy(*of_message).agg(
        *(F.max_by(name, "fragment").alias(name) for name in rest), F.count("*").alias("arrived"), parts.alias("parts"),
    )  # fmt: skip
    content = F.unhex(F.array_join(F.col("parts")["hex"], ""))
    joined = joined.where(F.col("arrived") == F.col("fragments")).withColumn("content", content)
    return messages.where(~is_cut).select(*names).unionByName(joined.select(*names))


def named(messages: DataFrame) -> DataFrame:
    """Turn conversation ids from bytes into text."""
    return messages.withColumn("conversation_id", uuid_text(F.col("conversation_id")))


def typed(messages: DataFrame, contract: Contract | None) -> DataFrame:
    """Decode bodies by a contract. Without a contract return the messages unchanged."""
    if contract is None:
        return messages
    return messages.withColumn("body", body_of(contract, F.col("type"), F.col("content")))
