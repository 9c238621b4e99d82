"""A sink for DataFrames whose rows are messages of dialogs: a service sends the message of each row exactly once.

A row has these columns:

    dialog   string     name of the dialog: all rows with this name are one dialog
    number   long       number of the row in its dialog, from 0 without holes; row 0 begins the dialog
    type     string     message type; null for a row that only ends the dialog
    body                a struct, map or array; or JSON in a string; or the bytes to send, as binary
    end      boolean    optional: true if the service ends the dialog with this row
    at       timestamp  optional: the time of issue, see **Once**; if the column exists, every row has a time

Each row becomes one **command** to the owner of the dialog, and the owner makes the message from the command. The conversation id
and the idempotency key of the command are made from the name of the job, the name of the dialog, and the number. So the same row
is always the same command, in whatever batch, task or run. The owner carries out this command once. A command never has several
rows. If it had, the end of a batch would decide which rows are in a command, and the owner could not recognise a repeated row.

**In order.** All rows of a dialog go through one task, in their order. A task writes in transactions
(``conversations.kafka.append_in_order``), not through Spark's own sink. A producer without transactions may give up on a record and still
deliver later records. A repetition would then write the record after the later records. With transactions, a task that fails has
written only its first commands, and the repetition adds the rest. The numbers of a dialog must increase from batch to batch,
except in repeated rows. A missing number within a batch is an error.

**Once.** An owner remembers a command for a day, and refuses commands that were issued more than a day ago. ``at`` is the time of
issue: the time of the first attempt to send the row. The rows of a stream get the time of their batch, which Spark keeps in the
checkpoint. So a batch may be carried out again, even after days. Either the owner still remembers its commands, or this job refuses
the batch before it writes anything. Without ``at``, the time of issue is the time of the call. Then rows that are given again more
than a day later are sent again.

**Never use the name of a dialog a second time.** An owner forgets an ended dialog, and would then begin another
dialog with the same id. Readers of the queues and of the archive would treat the new messages as repetitions. Put the day, or another
unique text, into the name of the dialog or of the job.

A row cannot be sent if its contract does not allow the body, if a number before it is missing, or if its number comes again with
different content. Such a row stops its batch before anything of the batch is written, and the error names the row. The owner
refuses a command if the dialog is over, or if row 0 was never sent. A refused command becomes a dead letter of the service, with
the reason ``command-refused``. The commands wait until the workers of the service run.

    spark-submit --packages ... spark_jobs/speak.py --bootstrap HOST:PORT --service web --to loans
        --contract shop.contracts:LOANS --job nightly --from-json s3a://asks/ --checkpoint s3a://jobs/nightly/

This example sends the JSON lines of a directory. If you start the job again, it continues where it stopped, even after a crash.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import NamedTuple
from uuid import UUID, uuid5

from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it
from pyspark.sql import types as T  # noqa: N812 - likewise

from conversations.config import Kafka
from conversations.errors import DeclarationError, KafkaUnreachable, LocalError, LogError
from conversations.protocol.admission import check_service, expiry
from conversations.protocol.contract import Contract
from conversations.protocol.endpoint import NEVER
from conversations.protocol.topics import COMMANDS as COMMANDS_TOPIC
from conversations.protocol.topics import check_name, service_topic
from conversations_ops.settings.given import periods
from spark_jobs.errors import SparkJobError
from spark_jobs.reading.wire import Wire
from spark_jobs.running.checkpoints import claim
from spark_jobs.running.command_line import Result, carry_out, kafka_of, parser_of
from spark_jobs.running.contracts import find_contract
from spark_jobs.speech_rows import COMMANDS, WRITTEN, Row, Speech, commands_of, written_to

NAMESPACE = UUID("8d2f6c1e-5b0a-5c3f-9e47-0a61d4b7c2f8")
"""UUID namespace of the ids of all spoken dialogs."""
PERIODS = periods()
KNOWN = PERIODS.spoken_known
"""Age in microseconds up to which an owner certainly remembers a command.

It is a day of log time, minus the time that a command may need to arrive.
"""
AHEAD = PERIODS.spoken_ahead
"""Microseconds by which a row's time may be ahead of this machine's clock."""
_JSON_TIMES = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Formats that keep the microseconds of times. Spark's own formats keep only milliseconds."""
SHOWN = 10
"""Number of rows that an error names."""
JSON = "dialog string, number long, type string, body string, end boolean, at timestamp"
"""Columns of JSON lines. An object in ``body`` is kept as its JSON text."""


class SpeakError(SparkJobError):
    """Rows cannot be sent; nothing of their batch was written."""


class Spoken(NamedTuple):
    """The result of one batch."""

    commands: int
    """Number of commands written, repeated commands included."""


def speak(
    batch: DataFrame,
    *,
    bootstrap: str | Kafka,
    service: str,
    contract: Contract,
    to_service: str,
    job: str,
    lifetime: timedelta | None = None,
) -> Spoken:
    """Send the rows of a batch from one service to another, as messages. A repetition of the call has no further effect.

    Args:
        batch: rows as described above.
        bootstrap: address of some brokers, or a ``Kafka`` with its namespace and settings.
        service: the service that sends; it initiates the contract.
        contract: contract of the messages; its classes must be importable on Spark's workers.
        to_service: the service that receives the messages.
        job: a name that you choose; the ids of the dialogs are made from it. Two runs of one job at the same time fence each other.
        lifetime: lifetime of the dialogs, instead of the contract's.

    Raises:
        SpeakError: some rows cannot be sent, or columns are missing; nothing was written.
        SourceError: there is no such service.
        KafkaUnreachable, LogError: none or only some of the commands were written; call this function again with the same batch.
        LocalError, DeclarationError: a name or the lifetime is not valid.
    """
    kafka = bootstrap if isinstance(bootstrap, Kafka) else Kafka(bootstrap)
    check_name("job", job)
    check_service(to_service)
    count = _partitions(kafka, service, contract, to_service)
    now = int(datetime.now(UTC).timestamp() * 1_000_000)
    speech = Speech(
        contract,
        to_service,
        job,
        _lifetime(now, lifetime, contract),
        count,
        now - KNOWN,
        now + AHEAD,
    )
    base = base_of(kafka.namespace, service, job, to_service, contract.name)
    commands = transform(batch, base, speech, now).persist()
    try:
        _check(commands)
        return Spoken(_written(commands, kafka, service, job))
    finally:
        commands.unpersist()


def speaking(
    *,
    bootstrap: str | Kafka,
    service: str,
    contract: Contract,
    to_service: str,
    job: str,
    lifetime: timedelta | None = None,
) -> Callable[[DataFrame, int], None]:
    """Return a function for ``writeStream.foreachBatch`` that calls ``speak`` with each batch of a stream, and with these arguments.

    The stream needs the column ``at``: add it with ``.withColumn("at", F.current_timestamp())`` before ``writeStream``. Spark
    keeps the time of each batch in the checkpoint, and uses the same time when it carries the batch out again.
    """
    say = partial(
        speak, bootstrap=bootstrap, service=service, contract=contract, to_service=to_service, job=job, lifetime=lifetime
    )  # fmt: skip

    def spoken(batch: DataFrame, _number: int) -> None:
        if "at" not in batch.columns:
            raise SpeakError(
                "the rows of a stream need a column 'at', so that a repeated batch is recognised: add "
                '.withColumn("at", F.current_timestamp()) before writeStream'
            )
        say(batch)

    return spoken


def base_of(namespace: str, service: str, job: str, to_service: str, contract: str) -> UUID:
    """Return the UUID namespace of a job's dialogs. The id of a dialog is the UUIDv5 of its name in this namespace."""
    return uuid5(NAMESPACE, f"{namespace}/{service}/{to_service}/{contract}/{job}")  # no name has a slash


def transform(rows: DataFrame, base: UUID, speech: Speech, now: int) -> DataFrame:
    """Make the commands of rows (``spoken.COMMANDS``). Each dialog is in one partition, sorted by number.

    Args:
        rows: as described above.
        base: UUID namespace from ``base_of``.
        speech: the facts that are the same for all rows.
        now: microseconds since 1970, for rows without ``at``.

    Raises:
        SpeakError: columns are missing, or have a wrong type.
    """
    together = prepared(rows, base, now).repartition(speech.partitions, "conversation")
    return together.sortWithinPartitions("conversation", "number").mapInArrow(commands_of(speech), COMMANDS)


def prepared(rows: DataFrame, base: UUID, now: int) -> DataFrame:
    """Give rows the columns of ``spoken.Row``."""
    missing = {"dialog", "number", "type", "body"} - set(rows.columns)
    if missing:
        raise SpeakError(
            f"the rows have no column {', '.join(sorted(missing))}; they need dialog, number, type and body, and may have "
            f"end and at; they have: {', '.join(rows.columns)}"
        )
    for name, kind in (("number", T.IntegralType), ("type", T.StringType), ("at", T.TimestampType)):
        if name in rows.columns and not isinstance(found := rows.schema[name].dataType, kind):
            raise SpeakError(f"the column {name} is {found.simpleString()}, not {kind.typeName()}: cast it")
    data, ready = _data(rows)
    conversation = _uuid5(base, F.col("dialog").cast("string"))
    end = F.coalesce(F.col("end").cast("boolean"), F.lit(False)) if "end" in rows.columns else F.lit(False)
    at = F.unix_micros(F.col("at").cast("timestamp")) if "at" in rows.columns else F.lit(now)
    return rows.select(
        F.col("dialog").cast("string").alias("dialog"), conversation.alias("conversation"),
        F.col("number").cast("long").alias("number"), F.col("type").alias("type"), data.alias("data"),
        F.lit(ready).alias("ready"), end.alias("end"), at.cast("long").alias("at"),
    ).select(*Row._fields)  # fmt: skip


def _data(rows: DataFrame) -> tuple[Column, bool]:
    """Return the bytes of the bodies, and True if these are the bytes to send, False if they are JSON."""
    kind, body = rows.schema["body"].dataType, F.col("body")
    if isinstance(kind, T.BinaryType):
        return body, True
    if isinstance(kind, T.StringType | T.NullType):
        return body.cast("string").cast("binary"), False
    if isinstance(kind, T.StructType | T.MapType | T.ArrayType):
        return F.to_json(body, _JSON_TIMES).cast("binary"), False
    raise SpeakError(
        f"the column body is {kind.simpleString()}: make it a struct, map or array, JSON in a string, or binary"
    )


def _uuid5(base: UUID, name: Column) -> Column:
    """Make the 16 bytes of the UUIDv5 of names, as ``uuid.uuid5`` does."""
    digits = F.sha1(F.concat(F.lit(bytearray(base.bytes)), name.cast("binary")))
    variant = F.translate(F.substring(digits, 17, 1), "0123456789abcdef", "89ab89ab89ab89ab")
    return F.unhex(
        F.concat(
            F.substring(digits, 1, 12), F.lit("5"), F.substring(digits, 14, 3), variant, F.substring(digits, 18, 15)
        )
    )


def _partitions(kafka: Kafka, service: str, contract: Contract, to_service: str) -> int:
    """Return the number of partitions of the service's commands topic, after a check that both services have the contract."""
    if contract.shares_groups:
        raise SpeakError(
            f"contract {contract.name!r} lets its initiators name the group at the target (group_named_by): speak cannot name groups. "
            "Use a contract without it, or conversations.Client"
        )
    wire = Wire(kafka, {})
    for name, role in ((service, "initiates"), (to_service, "accepts")):
        wire.partitions(name)
        known = sorted(wire.catalog.services[name].get(role, ()))
        if contract.name not in known:
            raise SpeakError(
                f"service {name!r} {role} no contract {contract.name!r}; contracts that it {role}: {', '.join(known) or 'none'}"
            )
    return wire.partitions(service)


def _lifetime(now: int, lifetime: timedelta | None, contract: Contract) -> int:
    """Return a lifetime as a number, as in ``Speech.lifetime``. The number is the same in every run."""
    if expiry(now, lifetime, contract, PERIODS.lifetime) >= NEVER:
        return -1
    chosen = contract.lives(PERIODS.lifetime) if lifetime is None else lifetime // timedelta(microseconds=1)
    return min(chosen or 0, 1 << 62)


def _check(commands: DataFrame) -> None:
    """Refuse the whole batch if a row cannot be sent."""
    wrong = commands.where("problem is not null")
    count = wrong.count()  # runs all partitions at once; take() would run a few at a time
    if not count:
        return
    found = wrong.select("dialog", "number", "problem").take(SHOWN)
    lines = [f"  dialog {row.dialog!r:.100}, number {row.number}: {row.problem:.500}" for row in found]
    more = f"\n  and {count - SHOWN} more" if count > SHOWN else ""
    raise SpeakError("nothing of this batch was written, because some rows cannot be sent:\n" + "\n".join(lines) + more)


def _written(commands: DataFrame, kafka: Kafka, service: str, job: str) -> int:
    """Write commands from Spark's workers; return their number."""
    topic = service_topic(kafka.namespace, service, COMMANDS_TOPIC)
    write = written_to(kafka, topic, f"{kafka.namespace}.{service}.speak.{job}")
    try:
        done = commands.mapInArrow(write, WRITTEN).agg(F.sum("commands")).first()
    except PySparkException as error:
        raise raised_by_worker(error, kafka.bootstrap) or error from error
    return int(done[0] or 0) if done is not None else 0


def raised_by_worker(error: PySparkException, bootstrap: str) -> LogError | None:
    """Return the Kafka error that a Spark worker raised, from the text of Spark's error; None if Spark's error has another cause."""
    known = re.search(r"conversations\.errors\.(\w+): (.+)", str(error))
    if known is None:
        return None
    return KafkaUnreachable(bootstrap, "no answer") if known[1] == KafkaUnreachable.__name__ else LogError(known[2])


# -- the command line ----------------------------------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    """Return the parser of the job's options."""
    made = parser_of(
        "speak", "Send the rows of files as messages of dialogs: each row once, and the rows of each dialog in order.",
        "conversations spark speak --service web --to loans --contract shop.contracts:LOANS --job nightly "
        "--from-json asks/ --checkpoint jobs/nightly/",
    )  # fmt: skip
    made.add_argument("--service", required=True, help="the service that sends the messages")
    made.add_argument("--to", required=True, metavar="SERVICE", help="the service that receives the messages")
    made.add_argument("--contract", required=True, metavar="MODULE:NAME", help="the contract of the messages")
    made.add_argument(
        "--job", required=True, metavar="NAME", help="a name that you choose; the ids of the dialogs are made from it"
    )
    made.add_argument(
        "--lifetime", type=float, metavar="SECONDS", help="lifetime of the dialogs (default: the contract's)"
    )
    source = made.add_mutually_exclusive_group(required=True)
    source.add_argument("--from-json", metavar="PATH", help="a file or directory of JSON lines")
    source.add_argument("--from-parquet", metavar="PATH", help="a directory of Parquet files")
    made.add_argument(
        "--checkpoint", metavar="DIR",
        help="read the files of a directory one after the other, oldest first, and remember in DIR which files were sent",
    )  # fmt: skip
    made.add_argument("--files", type=int, default=1_000, metavar="N", help="files in a batch, with --checkpoint")
    made.add_argument("--follow", action="store_true", help="with --checkpoint: wait for further files")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Send the rows of files, as the docstring of the module describes."""
    return carry_out(parser(), argv, _job)


def _job(spark: SparkSession, options: argparse.Namespace) -> Result:
    if options.follow and not options.checkpoint:
        raise DeclarationError("--follow needs a --checkpoint, to remember which files were sent")
    lifetime = None if options.lifetime is None else timedelta(seconds=options.lifetime)
    say = partial(
        speak, bootstrap=kafka_of(options), service=options.service, contract=find_contract(options.contract),
        to_service=options.to, job=options.job, lifetime=lifetime,
    )  # fmt: skip
    try:
        commands = _streamed(spark, options, say) if options.checkpoint else say(_read(spark, options)).commands
    except LocalError as error:
        raise DeclarationError(str(error)) from error
    except AnalysisException as error:
        raise SpeakError(f"the rows cannot be read: {str(error).strip().partition(chr(10))[0]}") from error
    return Result(
        {"job": options.job, "service": options.service, "to": options.to, "commands": commands},
        f"{commands} commands are written for {options.service}; its workers send their messages to {options.to}, each once. A "
        f"refused command becomes a dead letter: conversations spark dead-letter-triage --service {options.service}",
    )


def _read(spark: SparkSession, options: argparse.Namespace) -> DataFrame:
    if options.from_json:
        return _timed(spark.read.schema(JSON).option("mode", "FAILFAST").json(options.from_json))
    return _timed(spark.read.parquet(options.from_parquet))


def _timed(rows: DataFrame) -> DataFrame:
    """Give each row without a time the time of its batch. For a stream, Spark keeps this time in the checkpoint."""
    now = F.current_timestamp()
    return rows.withColumn("at", F.coalesce(F.col("at"), now) if "at" in rows.columns else now)


def _streamed(spark: SparkSession, options: argparse.Namespace, say: Callable[[DataFrame], Spoken]) -> int:
    """Send the rows of files that no earlier run has sent; return the number of commands written."""
    path = options.from_json or options.from_parquet
    kafka = kafka_of(options)
    what = {
        "job": f"speak {options.job}", "namespace": kafka.namespace, "service": options.service, "to": options.to,
        "contract": options.contract, "files": path,
    }  # fmt: skip
    claim(spark, options.checkpoint, what)
    # By default Spark ignores files that are a week older than the newest file that it has read.
    reader = spark.readStream.option("maxFilesPerTrigger", options.files).option("maxFileAge", "36500d")
    if options.from_json:
        stream = _timed(reader.schema(JSON).option("mode", "FAILFAST").json(path))
    else:
        stream = _timed(reader.schema(spark.read.parquet(path).schema).parquet(path))
    counts: list[int] = []
    failures: list[Exception] = []

    def spoken(batch: DataFrame, _number: int) -> None:
        try:
            counts.append(say(batch).commands)
        except (SparkJobError, LogError, LocalError, DeclarationError) as error:
            failures.append(error)
            raise

    writer = stream.writeStream.foreachBatch(spoken).option("checkpointLocation", options.checkpoint)
    writer = writer.trigger(processingTime="1 second") if options.follow else writer.trigger(availableNow=True)
    try:
        writer.start().awaitTermination()
    except StreamingQueryException:
        if failures:
            raise failures[0] from None
        raise
    return sum(counts)


if __name__ == "__main__":
    sys.exit(main())
