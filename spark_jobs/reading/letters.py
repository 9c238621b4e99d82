"""Dead letters as DataFrames: the bytes of each record, and the reason.

There is one row for each letter, or for each part of a letter that is too large for one record. The **source** of a letter is
the original record. A source may have several letters, because further attempts and decisions of operators add letters.
The function ``newest`` keeps the last letter of each source.

    letter                                name for operators, e.g. orders.queue-3-17
    service, partition, offset            place of the letter, in the dead-letter topic of this service
    reason, exception, exception_message  why it is a dead letter
    failed_at, attempts                   time of the failure, and number of failed attempts of the handler
    source_topic, source_offset           place of the original record; the number of its partition is ``partition``
    conversation_id, from_initiator, sequence, type, code
    held                                  true if a dialog waits behind this record until an operator decides
    part                                  ``number/count`` if the letter is in parts, else null
    contract, peer                        contract of the message, and the other service: its sender, or its receiver if it came back
    key, value, headers, written_at       as in the topic
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from conversations.protocol import letters as names
from conversations.protocol.topics import COMMANDS, DEAD_LETTER, DECISIONS, QUEUE, service_topic
from spark_jobs.reading.envelopes import decode, writer_schemas
from spark_jobs.reading.headers import header
from spark_jobs.reading.wire import Moment, Wire


def read_letters(
    spark: SparkSession, wire: Wire, services: Iterable[str], since: Moment | None = None, until: Moment | None = None
) -> DataFrame:
    """Read all letters of services' dead-letter topics, including settled letters.

    To keep only the last letter of each source, call ``newest``.

    Raises:
        SourceError: the catalog does not know a service.
    """
    topics = {}
    for name in services:
        wire.partitions(name)
        topics[service_topic(wire.kafka.namespace, name, DEAD_LETTER)] = name
    records = decode(wire.read(spark, topics, since, until), writer_schemas(wire.catalog.schemas))
    return letters_of(records, topics)


def letters_of(records: DataFrame, topics: Mapping[str, str]) -> DataFrame:
    """Make letters from decoded records of dead-letter topics; ``topics`` has the service of each topic."""
    service = F.create_map(*(F.lit(it) for pair in topics.items() for it in pair))[F.col("topic")]
    source = _text(names.SOURCE_TOPIC)
    source_offset, failed_at = (_number(name) for name in (names.SOURCE_OFFSET, names.FAILED_AT))
    foreign = header(names.REASON).isNull() | source_offset.isNull() | failed_at.isNull()
    envelope = F.when(F.col("envelope.kind").isNotNull(), F.col("envelope"))
    letter = F.when(foreign, letter_of(service, F.lit(DEAD_LETTER), F.col("offset")))
    return records.select(
        letter.otherwise(letter_of(service, source, source_offset)).alias("letter"),
        service.alias("service"), "partition", "offset",
        F.when(foreign, "foreign").otherwise(_text(names.REASON)).alias("reason"),
        _text(names.EXCEPTION).alias("exception"), _text(names.EXCEPTION_MESSAGE).alias("exception_message"),
        F.timestamp_micros(failed_at).alias("failed_at"),
        _text(names.ATTEMPTS).try_cast("int").alias("attempts"),
        source.alias("source_topic"), source_offset.alias("source_offset"),
        _text(names.CONVERSATION).alias("conversation_id"),
        (_text(names.FROM_INITIATOR) == "true").alias("from_initiator"),
        _text(names.SEQUENCE).try_cast("long").alias("sequence"), _text(names.MESSAGE_TYPE).alias("type"),
        _text(names.CODE).try_cast("int").alias("code"),
        F.coalesce(_text(names.HELD) == "true", F.lit(False)).alias("held"), _text(names.PART).alias("part"),
        envelope["contract"].alias("contract"), _peer(envelope).alias("peer"),
        "key", "value", "headers", F.col("timestamp").alias("written_at"),
    )  # fmt: skip


def newest(letters: DataFrame) -> DataFrame:
    """Keep the last letter of each source.

    The last letter tells what became of the record. If a letter is in parts, keep the last record of each part.
    """
    rest = [name for name in letters.columns if name not in {"letter", "part"}]
    found = letters.groupBy("letter", "part").agg(F.max_by(F.struct(*rest), "offset").alias("last"))
    return found.select("letter", "part", "last.*").select(*letters.columns)


def _peer(envelope: Column) -> Column:
    came_back = _text(names.REASON) == names.UNDELIVERABLE
    return F.when(came_back, envelope["to_service"]).otherwise(envelope["from_service"])


def letter_of(service: Column, topic: Column, offset: Column) -> Column:
    """Name letters by the places of their original records. The column ``partition`` has the number of the partition."""
    source = F.concat_ws(".", service, F.regexp_extract(topic, r"([^.]+)$", 1))
    return F.concat_ws("-", source, F.col("partition").cast("string"), offset.cast("string"))


def open_letters(rows: DataFrame) -> DataFrame:
    """Return the names of the open letters, from state rows. Column: letter."""
    first = F.substring("key", 2, 1)
    decisions = first == F.lit(bytearray(b"d"))
    topic = F.when(first == F.lit(bytearray(b"q")), QUEUE).when(decisions, DECISIONS).otherwise(COMMANDS)
    return rows.where("row = 'L'").select(letter_of(F.col("service"), topic, F.col("number")).alias("letter"))


def _text(name: str) -> Column:
    return F.try_validate_utf8(header(name).cast("string"))


def _number(name: str) -> Column:
    """Read the number in a header; null if the text has a character that is not a digit.

    Other tools that list letters read the header in the same way.
    """
    text = _text(name)
    return F.when(text.rlike(r"^[0-9]+$"), text.try_cast("long"))
