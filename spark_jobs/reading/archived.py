"""Readers of an archive that ``spark_jobs.archive`` wrote. They read the files that the newest commit names."""

from __future__ import annotations

from datetime import date

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from conversations.protocol.contract import Contract
from spark_jobs.errors import SourceError
from spark_jobs.reading.archive_log import COMMITS, DATA, Commit, Part, commit_of
from spark_jobs.reading.bodies import body_of
from spark_jobs.reading.messages import whole
from spark_jobs.running.storage import Directory

MESSAGE = (
    "conversation_id string, to_target boolean, sequence bigint, kind string, type string, sent_at timestamp, "
    "appended_at timestamp, contract string, from_service string, to_service string, service string, code int, "
    "description string, expires_at timestamp, content_type string, content binary, fragment int, fragments int, key string, topic string, partition int, offset bigint"
)
"""Columns of a message; ``spark_jobs.reading.dialogs`` describes them."""
SET_ASIDE = "why string, record_key binary, value binary, headers array<struct<key:string,value:binary>>"
"""Columns of a record that is not a message, in addition to its place and log time."""
PARTITIONS = "set_aside boolean, of string, day date, batch string"
"""Levels of an archive's folders: set aside (true for records that are not messages), service, day (log time in UTC), and batch."""
_WHERE = ("topic", "partition", "offset", "appended_at")


def read_archive(
    spark: SparkSession,
    directory: str,
    *,
    service: str | None = None,
    contract: Contract | None = None,
    since: date | None = None,
    until: date | None = None,
) -> DataFrame:
    """Read archived messages, each once and in no particular order, with the columns of ``spark_jobs.reading.dialogs.read_dialogs``.

    ``service`` is the target of the dialogs. ``since`` and ``until`` are days of log time in UTC, both included. With a
    contract, only messages under this contract are read, and they have the column ``body``.

    Raises:
        SourceError: there is no archive.
    """
    parts = [part for part in _parts(spark, directory, since, until) if not part.set_aside]
    parts = [part for part in parts if service in (None, part.service)]
    found = read_parts(spark, directory, parts).select(*_names(MESSAGE))
    # An archive of an older release has no fragments.
    found = whole(found.fillna({"fragment": 0, "fragments": 1}))
    if contract is None:
        return found
    mine = found.where(F.col("contract") == contract.name)
    return mine.withColumn("body", body_of(contract, F.col("type"), F.col("content")))


def read_archived_dialog(
    spark: SparkSession, directory: str, conversation_id: str, contract: Contract | None = None
) -> DataFrame:
    """Read one dialog: both directions, each in the order of its numbers.

    Raises:
        SourceError: there is no archive.
    """
    found = read_archive(spark, directory, contract=contract).where(F.col("conversation_id") == conversation_id.lower())
    return found.orderBy(F.col("to_target").desc(), F.col("sequence").asc_nulls_last())


def read_archived_set_aside(
    spark: SparkSession, directory: str, *, since: date | None = None, until: date | None = None
) -> DataFrame:
    """Read archived records that belong to no dialog, with their bytes and the reason.

    Raises:
        SourceError: there is no archive.
    """
    parts = [part for part in _parts(spark, directory, since, until) if part.set_aside]
    return read_parts(spark, directory, parts).select(*_WHERE, *_names(SET_ASIDE))


def newest_commit(directory: Directory) -> Commit | None:
    """Return the newest commit of an archive; None if the directory has no commit.

    Raises:
        CheckpointError: the commit cannot be read.
    """
    names = [name for name in directory.names(COMMITS) if name.endswith(".json") and not name.startswith(".")]
    return commit_of(directory.read(f"{COMMITS}/{names[-1]}")) if names else None


def read_parts(spark: SparkSession, directory: str, parts: list[Part]) -> DataFrame:
    """Read some parts of an archive, with the columns of its folders."""
    columns = f"{MESSAGE}, {SET_ASIDE}, {PARTITIONS}"
    if not parts:
        return spark.createDataFrame([], columns)
    root = Directory(spark, directory).path
    reader = spark.read.schema(columns).option("basePath", f"{root}/{DATA}")
    return reader.parquet(*(f"{root}/{part.path}" for part in parts))


def _parts(spark: SparkSession, directory: str, since: date | None, until: date | None) -> list[Part]:
    commit = newest_commit(Directory(spark, directory))
    if commit is None:
        raise SourceError(f"{directory} is no archive: 'conversations spark archive {directory}' makes one")
    first, last = (since or date.min).isoformat(), (until or date.max).isoformat()
    return [part for part in commit.parts if first <= part.day <= last]


def _names(columns: str) -> list[str]:
    return [column.split()[0] for column in columns.split(", ")]
