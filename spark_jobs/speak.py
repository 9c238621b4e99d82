"""A sink that lets a DataFrame hold dialogs: every row is a message that a service says, and is said once.

A row has

    dialog   string   names the dialog: rows with the same value are one dialog
    number   long     from 0, without holes: the order in the dialog; row 0 begins it
    type     string   message type; null for a row that only ends
    body              a struct, map or array, or JSON in a string; or the bytes to send, as binary
    end      boolean  optional: the service ends the dialog with this row
    at       timestamp  optional column, then in every row: when it was to be said first, see below

A row becomes one **command** to the owner of the dialog, which makes the message of it. Conversation id and idempotency key
are made of the job's name, the dialog and the number, so the same row is the same command, whatever batch, task or run
writes it, and its owner carries it out once. That is why a row is a command of its own: the rows of a dialog in one command
would be fewer records, but what is known of a repetition would hang on where a batch happened to end.

**In order.** All rows of a dialog go through one task, in their order. A task writes in transactions
(``conversations.kafka.together``), not through Spark's own sink: a producer that gives one record up may still deliver those
behind it, and the repetition would put it behind them. So the commands of a task that fails are always the first ones, and
the repetition adds the rest. Batches must come in the order of a dialog's numbers; within a batch a hole is an error.

**Once.** An owner knows what took effect for a day, and refuses what was issued more than a day ago. ``at`` is when: a
stream's rows get the time of their batch, which Spark keeps in the checkpoint, so a batch that is carried out again, even
after days, is either known or refused here before anything is written. Without ``at`` it is the moment of the call: rows
that are spoken again more than a day later are said again. For the same reason **a dialog's name is used once, ever**: an
owner forgets an ended dialog, and would begin another one under the same id, which readers of the queues and the archive
take for a repetition. Put the day, or whatever makes it unique, into the name of the dialog or of the job.

A row that cannot be said (a body its contract does not allow, a hole, the same number with something else) stops its batch
before anything of it is written; the error names the rows. What the owner refuses (the dialog is over, a row 0 was never
said) becomes a dead letter of the service, reason ``command-refused``. The service's workers must run for anything to be
said; the commands wait for them.

    spark-submit --packages ... spark_jobs/speak.py --bootstrap HOST:PORT --service web --to loans
        --contract shop.contracts:LOANS --job nightly --from-json s3a://asks/ --checkpoint s3a://jobs/nightly/

says a directory of JSON lines, goes on where it was when it is started again, and does not mind how it was ended.
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
from spark_jobs.spoken import COMMANDS, WRITTEN, Row, Speech, commands_of, written_to

NAMESPACE = UUID("8d2f6c1e-5b0a-5c3f-9e47-0a61d4b7c2f8")
"""The namespace of the ids of all spoken dialogs."""
PERIODS = periods()
KNOWN = PERIODS.spoken_known
"""Microseconds for which a row that is written again is surely known: a day of the log, less the time of its way there."""
AHEAD = PERIODS.spoken_ahead
"""How far, in microseconds, a row's time may be ahead of this machine's clock."""
_JSON_TIMES = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""By itself Spark writes times to the millisecond."""
SHOWN = 10
"""Rows that cannot be said and are named in an error."""
JSON = "dialog string, number long, type string, body string, end boolean, at timestamp"
"""How JSON lines are read: an object in ``body`` stays the text it is."""


class SpeakError(SparkJobError):
    """Rows cannot be said; nothing of their batch was written."""


class Spoken(NamedTuple):
    """The result of one batch."""

    commands: int
    """Commands written, repeated ones too."""


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
    """Have a service say the rows of a batch to another one; to do it again has no further effect.

    Args:
        batch: rows as described above.
        bootstrap: address of some brokers, or a ``Kafka`` with its namespace and settings.
        service: who speaks, and initiates the contract.
        contract: of the messages; its classes must be importable on the workers.
        to_service: whom to.
        job: name of this use: a part of every dialog's identity. Two runs of one job at a time shut each other out.
        lifetime: of the dialogs, instead of the contract's.

    Raises:
        SpeakError: some rows cannot be said, or columns are missing; nothing was written.
        SourceError: there is no such service.
        KafkaUnreachable, LogError: only some commands were written, or none; to speak the batch again is right.
        LocalError, DeclarationError: a name or the lifetime is none.
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
    """Return the function for ``writeStream.foreachBatch`` that speaks each batch of a stream; arguments as of ``speak``.

    The stream needs the column ``at``: add it with ``.withColumn("at", F.current_timestamp())`` before ``writeStream``. Spark
    keeps the time of each batch in the checkpoint, and says the same when it carries the batch out again.
    """
    say = partial(
        speak, bootstrap=bootstrap, service=service, contract=contract, to_service=to_service, job=job, lifetime=lifetime
    )  # fmt: skip

    def spoken(batch: DataFrame, _number: int) -> None:
        if "at" not in batch.columns:
            raise SpeakError(
                "the rows of a stream need a column 'at', so that a batch that is carried out again is known: add "
                '.withColumn("at", F.current_timestamp()) before writeStream'
            )
        say(batch)

    return spoken


def base_of(namespace: str, service: str, job: str, to_service: str, contract: str) -> UUID:
    """Return the namespace of the ids of a job's dialogs: the id of a dialog is the UUIDv5 of its name there."""
    return uuid5(NAMESPACE, f"{namespace}/{service}/{to_service}/{contract}/{job}")  # no name has a slash


def transform(rows: DataFrame, base: UUID, speech: Speech, now: int) -> DataFrame:
    """Make the commands of rows, with each dialog in one partition and sorted by number; see ``spoken.COMMANDS``.

    Args:
        rows: as described above.
        base: what ``base_of`` says.
        speech: the facts that are the same for all rows.
        now: microseconds since 1970, for rows without ``at``.

    Raises:
        SpeakError: columns are missing, or are of a type they cannot have.
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
    """Return the bytes of the bodies, and whether they are sent as they are or are JSON."""
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
    """Return how many partitions the service's commands have, once it may say such things to the other."""
    wire = Wire(kafka, {})
    for name, role in ((service, "initiates"), (to_service, "accepts")):
        wire.partitions(name)
        known = sorted(wire.catalog.services[name].get(role, ()))
        if contract.name not in known:
            raise SpeakError(
                f"service {name!r} {role} no contract {contract.name!r}; what it {role}: {', '.join(known) or 'nothing'}"
            )
    return wire.partitions(service)


def _lifetime(now: int, lifetime: timedelta | None, contract: Contract) -> int:
    """Say a lifetime as a command does, the same in every run."""
    if expiry(now, lifetime, contract, PERIODS.lifetime) >= NEVER:
        return -1
    chosen = contract.lives(PERIODS.lifetime) if lifetime is None else lifetime // timedelta(microseconds=1)
    return min(chosen or 0, 1 << 62)


def _check(commands: DataFrame) -> None:
    """Refuse the whole batch for a row that cannot be said."""
    wrong = commands.where("problem is not null")
    count = wrong.count()  # all partitions at once, where take() would look through a few at a time
    if not count:
        return
    found = wrong.select("dialog", "number", "problem").take(SHOWN)
    lines = [f"  dialog {row.dialog!r:.100}, number {row.number}: {row.problem:.500}" for row in found]
    more = f"\n  and {count - SHOWN} more" if count > SHOWN else ""
    raise SpeakError("nothing of this batch was written, for some rows cannot be said:\n" + "\n".join(lines) + more)


def _written(commands: DataFrame, kafka: Kafka, service: str, job: str) -> int:
    """Write commands from the workers; return how many."""
    topic = service_topic(kafka.namespace, service, COMMANDS_TOPIC)
    write = written_to(kafka, topic, f"{kafka.namespace}.{service}.speak.{job}")
    try:
        done = commands.mapInArrow(write, WRITTEN).agg(F.sum("commands")).first()
    except PySparkException as error:
        raise raised_by_worker(error, kafka.bootstrap) or error from error
    return int(done[0] or 0) if done is not None else 0


def raised_by_worker(error: PySparkException, bootstrap: str) -> LogError | None:
    """Find a worker's Kafka error in Spark's text; None when it was another error."""
    known = re.search(r"conversations\.errors\.(\w+): (.+)", str(error))
    if known is None:
        return None
    return KafkaUnreachable(bootstrap, "no answer") if known[1] == KafkaUnreachable.__name__ else LogError(known[2])


# -- the command line ----------------------------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    """Speak the rows of files; see the module."""
    parser = parser_of(
        "speak", "Let a service say the rows of files, each once, in order per dialog.",
        "conversations spark speak --service web --to loans --contract shop.contracts:LOANS --job nightly "
        "--from-json asks/ --checkpoint jobs/nightly/",
    )  # fmt: skip
    parser.add_argument("--service", required=True, help="who speaks")
    parser.add_argument("--to", required=True, metavar="SERVICE", help="whom to")
    parser.add_argument("--contract", required=True, metavar="MODULE:NAME", help="the contract of the messages")
    parser.add_argument(
        "--job", required=True, metavar="NAME", help="names this use; a part of every dialog's identity"
    )
    parser.add_argument("--lifetime", type=float, metavar="SECONDS", help="of the dialogs, instead of the contract's")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--from-json", metavar="PATH", help="a file or directory of JSON lines")
    source.add_argument("--from-parquet", metavar="PATH", help="a directory of Parquet files")
    parser.add_argument(
        "--checkpoint", metavar="DIR",
        help="take the files of a directory one after the other, oldest first, and remember here which were said",
    )  # fmt: skip
    parser.add_argument("--files", type=int, default=1_000, metavar="N", help="of a batch, with --checkpoint")
    parser.add_argument("--follow", action="store_true", help="with --checkpoint: wait for further files")
    return carry_out(parser, argv, _job)


def _job(spark: SparkSession, options: argparse.Namespace) -> Result:
    if options.follow and not options.checkpoint:
        raise DeclarationError("--follow needs a --checkpoint, to remember what was said")
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
        f"{commands} commands are written for {options.service}; its workers say them to {options.to}, each once. What they "
        f"refuse is a dead letter: conversations spark dead-letter-triage --service {options.service}",
    )


def _read(spark: SparkSession, options: argparse.Namespace) -> DataFrame:
    if options.from_json:
        return _timed(spark.read.schema(JSON).option("mode", "FAILFAST").json(options.from_json))
    return _timed(spark.read.parquet(options.from_parquet))


def _timed(rows: DataFrame) -> DataFrame:
    """Give rows without a time that of their batch, which Spark keeps in the checkpoint."""
    now = F.current_timestamp()
    return rows.withColumn("at", F.coalesce(F.col("at"), now) if "at" in rows.columns else now)


def _streamed(spark: SparkSession, options: argparse.Namespace, say: Callable[[DataFrame], Spoken]) -> int:
    """Speak the rows since the last run; return the number of commands written."""
    path = options.from_json or options.from_parquet
    kafka = kafka_of(options)
    what = {
        "job": f"speak {options.job}", "namespace": kafka.namespace, "service": options.service, "to": options.to,
        "contract": options.contract, "files": path,
    }  # fmt: skip
    claim(spark, options.checkpoint, what)
    # By itself Spark passes over files that are a week older than the newest one it has read.
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
