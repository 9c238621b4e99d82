"""Keeps every message of every dialog in Parquet files, once, by service and day.

    conversations spark archive s3a://bucket/dialogs --bootstrap HOST:PORT
    spark-submit --packages ... spark_jobs/archive.py s3a://bucket/dialogs --bootstrap HOST:PORT

Each run continues where the last run stopped. It works in batches. It ends when all records that existed at its start are archived.
A batch counts as soon as its commit exists (``spark_jobs.reading.archive_log``), so a run that is killed or repeated adds nothing
twice. If several records have the same number, the first in the log is kept. To find repetitions, the job compares a batch with
archived messages. It begins ``--look-back`` days before the oldest record of the batch. Files are sorted by dialog, direction and
number. Records that are not messages are kept with their bytes, in folders of their own.
``spark_jobs.reading.archived`` reads an archive. ``--dialog ID`` shows one dialog. ``--compact`` merges the files of each service
and day.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from uuid import UUID, uuid4

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from conversations.durations import milliseconds
from conversations.errors import DeclarationError, LogError
from conversations.kafka.offsets import Extent, Place, extents_of
from conversations_ops.console.exit_codes import Exit
from conversations_ops.printable import one_line
from conversations_ops.settings.given import periods
from spark_jobs.errors import CheckpointError, RecordsDropped, SourceError, explained
from spark_jobs.reading import archive_log as log
from spark_jobs.reading.archived import MESSAGE, newest_commit, read_archived_dialog, read_parts
from spark_jobs.reading.identifiers import uuid_text
from spark_jobs.reading.messages import IDENTITY, concerns, is_message, judged_records, message_columns, once
from spark_jobs.reading.wire import Wire
from spark_jobs.running.arguments import argument, whole
from spark_jobs.running.command_line import Result, carry_out, kafka_of, parser_of
from spark_jobs.running.storage import Directory

MOST = 5_000_000
"""Approximate number of records in one batch."""
LOOK_BACK = timedelta(days=7)
PARTS = 20_000
"""Number of parts that compaction must save before a run compacts the archive. The run does this before it adds a batch.

Compaction merges all parts of a service and day into one part. A commit lists all parts, and needs about 150 bytes for each part.
"""
FILE_BYTES = 128 << 20
"""Approximate size of compacted files."""
SHOWN = 200
"""Characters of a body that ``--dialog`` shows."""
_STALE = milliseconds(periods().archive_stale)
"""Milliseconds after which files of an interrupted write are deleted."""
_FOLDERS = ["set_aside", "of", "day", "batch"]
_ORDER = [*_FOLDERS, "conversation_id", "to_target", "sequence", "offset"]


def transform(
    judged: DataFrame, services: Mapping[str, str], service: str, archived: DataFrame | None, known: Iterable[str]
) -> DataFrame:
    """Make the archive's rows: each message once, and each record that is not a message.

    Args:
        judged: records from ``spark_jobs.reading.messages.judged_records``.
        services: the service of each queue topic.
        service: only dialogs of this service; empty: all dialogs.
        archived: messages of the archive with the columns ``IDENTITY``; these messages are left out of the result.
        known: services of the catalog. If the target of a message is not in the catalog, the message is filed under the service of
            its queue. A record that is not a message is filed in the same way.
    """
    whose = F.create_map(*(F.lit(it) for pair in services.items() for it in pair))[F.col("topic")]
    message, aside = is_message(), F.col("why").isNotNull()
    if service:
        message, aside = message & concerns(service), aside & (whose == service)
    inner = [name for name in MESSAGE_NAMES if name not in {"appended_at", "topic", "partition", "offset"}]
    rows = judged.where(message | aside).select(
        F.when(message, F.struct(*message_columns())).alias("m"), whose.alias("whose"), "topic", "partition", "offset",
        F.col("timestamp").alias("appended_at"), "why", F.when(aside, F.col("key")).alias("record_key"), *(F.when(aside, F.col(name)).alias(name) for name in ("value", "headers")),
    )  # fmt: skip
    flat = rows.select(*(F.col(f"m.{name}").alias(name) for name in inner), *rows.drop("m").columns)
    kept = once(flat)
    named = kept.withColumn(
        "conversation_id", F.when(F.col("conversation_id").isNotNull(), uuid_text(F.col("conversation_id")))
    )
    if archived is not None:
        named = _without(named, archived)
    return named.select(
        *MESSAGE_NAMES, "why", "record_key", "value", "headers", F.col("why").isNotNull().alias("set_aside"),
        F.when(F.col("service").isin(*known), F.col("service")).otherwise(F.col("whose")).alias("of"), F.to_date("appended_at").alias("day"),
    )  # fmt: skip


MESSAGE_NAMES = [column.split()[0] for column in MESSAGE.split(", ")]


def _without(rows: DataFrame, archived: DataFrame) -> DataFrame:
    """Leave out messages that the archive has. An ERROR without a number is compared as number -1."""
    known = archived.select(*(F.col(name).alias(f"known_{name}") for name in IDENTITY))
    same = F.lit(True)
    for name in IDENTITY:
        left, right = F.col(name), F.col(f"known_{name}")
        same &= F.coalesce(left, F.lit(-1)) == F.coalesce(right, F.lit(-1)) if name == "sequence" else left == right
    return rows.join(known, same, "left_anti")


@dataclass(frozen=True)
class Batch:
    """The result of one batch."""

    number: int
    messages: int
    set_aside: int
    left: int
    """Approximate number of records that are still to be archived."""


@dataclass(frozen=True)
class Archive:
    """Writer of an archive of all dialogs of a namespace, or of the dialogs of one service."""

    spark: SparkSession
    wire: Wire
    directory: Directory
    service: str = ""
    look_back: timedelta = LOOK_BACK
    most_parts: int = PARTS

    def newest(self) -> log.Commit | None:
        """Return the newest commit of the archive; None if there is no commit yet.

        Raises:
            CheckpointError: the directory has another archive, or other files.
        """
        commit = newest_commit(self.directory)
        if commit is not None:
            log.check_same(commit, self.wire.kafka.namespace, self.service)
        else:
            log.check_free(self.directory.path, self.directory.names("."))
        return commit

    def catch_up(self, most: int = MOST, *, accept_holes: bool = False) -> Iterator[Batch]:
        """Archive the records that are in Kafka now, in batches.

        Raises:
            SourceError: Kafka has dropped records before they were archived, or a topic was created again.
            CheckpointError: another run wrote to the archive meanwhile, or the directory has another archive.
        """
        talkers = self.wire.talkers(self.service or None, None)
        goal = self._extents(talkers)
        while True:
            commit = self.newest()
            if commit is not None and log.spare_parts(commit.parts) >= self.most_parts:
                self.compact()
                continue
            stretches, holes = log.upcoming(commit, goal, most, accept_holes=accept_holes)
            if not stretches:
                return
            commit = commit or log.Commit(0, self.wire.kafka.namespace, self.service, "", {}, {})
            following = log.after(commit, stretches, {topic: goal[topic, 0].topic_id for topic, _ in goal})
            messages, aside, parts = self._written(talkers, commit, following.number, stretches)
            self._commit(replace(following, parts=(*commit.parts, *parts), holes=(*commit.holes, *holes)))
            left = sum(extent.end - stretches[place].end for place, extent in goal.items())
            yield Batch(following.number, messages, aside, left)
            goal = self._still_there(talkers, goal)

    def compact(self) -> int:
        """Merge the files of each service and day; return the number of parts that were replaced.

        Raises:
            CheckpointError: another run wrote to the archive meanwhile, or the directory has another archive.
        """
        commit = self.newest()
        groups = log.to_compact(commit.parts) if commit is not None else {}
        if commit is None or not groups:
            return 0
        old = [part for parts in groups.values() for part in parts]
        batch = _batch(commit.number + 1)
        rows = read_parts(self.spark, self.directory.path, old).withColumn("batch", F.lit(batch))
        files = 1 + sum(part.bytes for part in old) // FILE_BYTES
        # Rows with equal keys go to one range, so one file has all messages of a dialog and day.
        ranged = rows.repartitionByRange(max(files, len(groups)), *_FOLDERS, "conversation_id")
        made = self._save(ranged.sortWithinPartitions(*_ORDER), batch)
        rest = tuple(part for part in commit.parts if part.place not in groups)
        self._commit(replace(commit, number=commit.number + 1, parts=(*rest, *made)))
        return len(old)

    def clean(self) -> None:
        """Delete old commits, and files that are not in the newest commit. Files of a batch that is not committed yet stay."""
        commit = self.newest()
        number = commit.number if commit is not None else 0
        live = {part.batch for part in commit.parts} if commit is not None else set()
        for path in self.directory.matching(log.part_path("*", "*", "*", "*")):
            batch = log.part_at(path, 0).batch
            if batch not in live and log.number_of(batch) <= number:
                self.directory.delete(path)
        now = time.time_ns() // 1_000_000
        for name in self.directory.names(log.DATA):
            if name.startswith(".spark-staging") and self.directory.age(f"{log.DATA}/{name}", now) > _STALE:
                self.directory.delete(f"{log.DATA}/{name}")
        for old in range(max(1, number - 2 * log.KEPT), number - log.KEPT):
            self.directory.delete(log.commit_name(old))

    def _extents(self, talkers: Iterable[str]) -> Mapping[Place, Extent]:
        try:
            return extents_of(self.wire.kafka, [self.wire.queue(name) for name in talkers])
        except LogError as error:
            raise SourceError(str(error)) from error

    def _still_there(self, talkers: Iterable[str], goal: Mapping[Place, Extent]) -> Mapping[Place, Extent]:
        """Return the goal without records that retention has deleted meanwhile."""
        now = self._extents(talkers)
        return {place: now[place]._replace(end=max(now[place].first, it.end)) for place, it in goal.items()}

    def _written(
        self, talkers: list[str], commit: log.Commit, number: int, stretches: Mapping[Place, log.Stretch]
    ) -> tuple[int, int, list[log.Part]]:
        try:
            return self._write(talkers, commit, number, stretches)
        except PySparkException as error:
            if not isinstance(explained(error), RecordsDropped):
                raise
            raise RecordsDropped(
                "Kafka dropped records while they were read: nothing of this batch was added; run the job again to see which records"
            ) from error

    def _write(
        self, talkers: list[str], commit: log.Commit, number: int, stretches: Mapping[Place, log.Stretch]
    ) -> tuple[int, int, list[log.Part]]:
        topics = {self.wire.queue(name): name for name in talkers}
        records = self.wire.read_offsets(self.spark, *log.spark_offsets(stretches), topics)
        batch, seen = _batch(number), Observation()
        archived = self._archived(commit, records)
        rows = transform(
            judged_records(self.wire, talkers, records), topics, self.service, archived, self.wire.catalog.services
        )
        counted = rows.withColumn("batch", F.lit(batch)).observe(
            seen, F.count(F.lit(1)).alias("rows"), F.count("why").alias("aside")
        )
        parts = self._save(counted.sortWithinPartitions(*_ORDER), batch)
        counts = seen.get
        if bool(counts["rows"]) != bool(parts):
            raise CheckpointError("the files of this batch cannot be found: nothing of it was added")
        return counts["rows"] - counts["aside"], counts["aside"], parts

    def _archived(self, commit: log.Commit, records: DataFrame) -> DataFrame | None:
        """Return the archived messages that the records may repeat. They are from the look-back days or later."""
        mine = [part for part in commit.parts if not part.set_aside]
        first = records.agg(F.date_format(F.min("timestamp"), "yyyy-MM-dd")).collect()[0][0] if mine else None
        if first is None:
            return None
        oldest = date.fromisoformat(first) - self.look_back
        recent = [part for part in mine if part.day >= oldest.isoformat()]
        return read_parts(self.spark, self.directory.path, recent) if recent else None

    def _save(self, rows: DataFrame, batch: str) -> list[log.Part]:
        """Write rows into the folders of a new batch. The folders belong to the archive as soon as a commit names them."""
        # In dynamic mode Spark replaces only the folders that it writes. The batch has a unique name, so no other run writes into them.
        writer = rows.write.mode("overwrite").option("partitionOverwriteMode", "dynamic").partitionBy(*_FOLDERS)
        writer.parquet(f"{self.directory.path}/{log.DATA}")
        found = self.directory.matching(log.part_path("*", "*", "*", batch))
        return [log.part_at(path, self.directory.size(path)) for path in found]

    def _commit(self, commit: log.Commit) -> None:
        dated = replace(commit, made_at=datetime.now(UTC).isoformat(timespec="seconds"))
        if not self.directory.create(log.commit_name(commit.number), dated.to_json()):
            raise CheckpointError(
                "another run wrote to this archive meanwhile: nothing of this batch was added; run it again"
            )


def _batch(number: int) -> str:
    return f"{number:010d}-{uuid4().hex[:8]}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    return carry_out(parser(), argv, _job, needs_kafka=lambda options: not options.dialog)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the job's options."""
    made = parser_of(
        "archive", "Keep every message of every dialog in Parquet files, once, by service and day.",
        "conversations spark archive /data/dialogs --bootstrap localhost:9092",
    )  # fmt: skip
    made.add_argument("directory", help="directory of the archive: a path or URL that Spark can write to")
    made.add_argument("--service", default="", help="only dialogs of this service (default: all)")
    made.add_argument(
        "--most",
        type=int,
        default=MOST,
        metavar="RECORDS",
        help=f"approximate number of records in a batch (default: {MOST:,})",
    )
    made.add_argument(
        "--look-back", type=whole(0, 36_500), default=LOOK_BACK.days, metavar="DAYS",
        help=f"number of days before a batch that are searched for repeated messages (default: {LOOK_BACK.days})",
    )  # fmt: skip
    made.add_argument(
        "--accept-holes", action="store_true", help="continue after records that Kafka has dropped, and note the hole"
    )
    made.add_argument("--compact", action="store_true", help="afterwards merge the files of each service and day")
    made.add_argument(
        "--dialog", metavar="ID", type=argument(_conversation_id),
        help="archive nothing; show the messages of the dialog with this conversation_id, first to the target, then from the target",
    )  # fmt: skip
    return made


def _conversation_id(text: str) -> str:
    try:
        return str(UUID(text))
    except ValueError:
        raise ValueError(f"{text!r} is no conversation id: a conversation id is a UUID") from None


def _job(spark: SparkSession, options: argparse.Namespace) -> Result:
    if options.dialog:
        return _shown(spark, options.directory, options.dialog)
    if any(name.lower() == "failondataloss" for name, _ in options.option):
        raise DeclarationError("the archive notes holes itself: use --accept-holes instead of failOnDataLoss")
    wire = Wire(kafka_of(options), dict(options.option))
    archive = Archive(
        spark, wire, Directory(spark, options.directory), options.service, timedelta(days=options.look_back)
    )
    archive.clean()
    messages = aside = 0
    for batch in archive.catch_up(options.most, accept_holes=options.accept_holes):
        messages, aside = messages + batch.messages, aside + batch.set_aside
        print(f"batch {batch.number}: {batch.messages:,} messages; about {batch.left:,} records to go", file=sys.stderr)
    compacted = archive.compact() if options.compact else 0
    commit = archive.newest()
    found = log.figures(commit) if commit is not None else {}
    data = {
        "archive": archive.directory.path,
        "messages": messages,
        "set_aside": aside,
        "compacted": compacted,
        **found,
    }
    text = (
        f"{options.directory}: {messages:,} messages added, {aside:,} records set aside; {found.get('parts', 0)} parts"
    )
    return Result(data, text)


def _shown(spark: SparkSession, directory: str, conversation: str) -> Result:
    at = F.date_format("appended_at", "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX").alias("appended_at")
    columns = ("to_target", "sequence", "kind", "type", at, "from_service", "code", "content")
    rows = read_archived_dialog(spark, directory, conversation).select(*columns).collect()
    messages = [
        {
            "to_target": row.to_target, "sequence": row.sequence, "kind": row.kind, "type": row.type,
            "appended_at": row.appended_at, "from": row.from_service, "code": row.code,
            "content": bytes(row.content).decode("utf-8", "backslashreplace"),
        }
        for row in rows
    ]  # fmt: skip
    lines = [
        f"{it['appended_at']}  {'→' if it['to_target'] else '←'} {it['sequence']!s:>6}  "
        f"{one_line(it['type'] or it['kind'])}  {one_line(it['content'][:SHOWN])}"
        for it in messages
    ]
    text = "\n".join(lines) or f"no dialog {conversation} is archived in {directory}"
    exit_code = Exit.FINE if messages else Exit.HUMAN
    return Result({"conversation_id": conversation, "messages": messages}, text, exit_code)


if __name__ == "__main__":
    sys.exit(main())
