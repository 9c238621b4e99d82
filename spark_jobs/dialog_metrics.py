"""Metrics of dialogs by minute, service and contract: for plots, alarms and the console.

    spark-submit ... spark_jobs/dialog_metrics.py --bootstrap kafka:9092 --out s3a://metrics/dialogs --publish
    conversations spark dialog-metrics --since 2026-09-01 --until 2026-09-02 --out metrics

There is a row for each service, contract and minute of the range, from the first message of the service and contract on:

    minute, service, contract      key of the row: it is about dialogs that were begun with ``service`` under ``contract``
    begun                          dialogs that began
    messages                       messages of both directions, each once
    ended, errored, expired        dialogs that closed: by an END, an ERROR or their lifetime, whichever came first
    errors                         number of ``errored`` dialogs by error code; negative codes are the system's
    replied                        dialogs whose first reply came in this minute
    reply_p50, _p95, _p99          quantiles of the seconds from the first message to this reply
    end_p50, end_p95, end_p99      quantiles of the seconds from the first message to the end, of dialogs that closed
    open                           open dialogs at the end of the minute
    backlog                        messages that the owners of both sides have not read; known only for the
                                   newest minute of a run; null for other minutes, unless ``--out`` has kept the number

All times are log times. An event counts in the minute in which it happened: a reply in the minute of the reply, not in the
minute in which its dialog began. So a computed minute does not change, and a later run may compute it again. The newest minute
ended at least 15 seconds ago, so no open transaction can add to it.

``--out`` is Parquet by day (``spark_jobs.running.day_files``). A row replaces the row with the same minute, service and
contract; other rows stay. If a run dies while it replaces rows, the next run finishes this replacement or drops it. ``--publish``
writes to the compacted topic ``<namespace>.metrics``. Its keys are ``service/contract/minute``, and its values are rows as JSON. If a
minute is computed again, only the option ``--out`` keeps the backlog of the minute.

Messages before ``--since`` are read too, as far back as Kafka or ``--lookback`` allows. A dialog that began before the oldest
of these messages is not counted as open, and its times are not counted. The job writes no rows for minutes before the oldest message,
and the minute of the oldest message may be incomplete. This is a batch job: let a scheduler start it every minute, or as often as you need.

Exit codes: 0 done, 2 wrong usage, 3 Kafka unreachable.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from conversations.errors import DeclarationError
from conversations.kafka.admin import create_metrics_topic
from conversations_ops.console.tables import as_text
from conversations_ops.console.times import MINUTE, minute, minute_of, span
from spark_jobs.reading import rows as state
from spark_jobs.reading.dialogs import read_dialogs
from spark_jobs.reading.messages import is_message, judged_records
from spark_jobs.reading.wire import Wire, java_settings
from spark_jobs.running.arguments import argument
from spark_jobs.running.command_line import Result, carry_out, kafka_of, parser_of
from spark_jobs.running.day_files import DayFiles

COMPLETE_AFTER = timedelta(seconds=15)
"""Time from the end of a minute until each transaction of the minute has ended. Then the minute is complete."""
RANGE = timedelta(hours=1)
PAIR = ("service", "contract")
KEY = ("minute", *PAIR)
_SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_COUNTS = ("begun", "messages", "ended", "errored", "expired", "replied")
_TIMES = tuple(f"{name}_{share}" for name in ("reply", "end") for share in _SHARES)
_FACT = "struct<minute:timestamp,what:string,count:bigint,code:int,seconds:double>"


def transform(messages: DataFrame, since: datetime, until: datetime, backlog: DataFrame | None = None) -> DataFrame:
    """Compute the rows of whole minutes from messages with the columns of ``read_dialogs``.

    ``messages`` begin before ``since``, so that open dialogs are known. ``backlog`` (service, contract, backlog) belongs to
    the newest minute of the range.
    """
    found = facts(messages).where(F.col("minute") < F.lit(until))
    if backlog is not None:
        unread = F.lit("backlog").alias("what"), F.col("backlog").alias("count")
        found = found.unionByName(
            backlog.select(*PAIR, F.lit(until - MINUTE).alias("minute"), *unread), allowMissingColumns=True
        )
    return _every_minute(_counted(found), since, until)


def facts(messages: DataFrame) -> DataFrame:
    """List the events of dialogs: service, contract, minute, what, and count, code or seconds."""
    at, is_message = F.col("appended_at"), F.col("kind") == "MESSAGE"
    parts = messages.groupBy(*PAIR, "conversation_id", F.date_trunc("minute", at).alias("minute")).agg(
        F.count_if(is_message).alias("count"),
        F.min(F.when(F.col("to_target") & (F.col("sequence") == 0), at)).alias("begun_at"),
        F.min(F.when(~F.col("to_target") & is_message, at)).alias("reply_at"),
        F.min(F.when(~is_message, F.struct(at.alias("at"), "kind", "code"))).alias("end"),
        F.min("expires_at").alias("expires_at"),
    )  # fmt: skip
    dialogs = parts.groupBy(*PAIR, "conversation_id").agg(
        F.collect_list(F.struct("minute", "count")).alias("minutes"), F.min("begun_at").alias("begun_at"),
        F.min("reply_at").alias("reply_at"), F.min("end").alias("end"), F.min("expires_at").alias("expires_at"),
    )  # fmt: skip
    over = F.when(
        F.col("expires_at") <= F.coalesce("end.at", "expires_at"),
        F.struct(
            F.col("expires_at").alias("at"), F.lit("expired").alias("what"), F.lit(None).cast("int").alias("code")
        ),
    ).otherwise(
        F.struct(
            F.col("end.at").alias("at"),
            F.when(F.col("end.kind") == "END", "ended").otherwise("errored").alias("what"),
            F.when(F.col("end.kind") == "ERROR", F.col("end.code")).alias("code"),
        )
    )
    begun = F.col("begun_at")
    ends = dialogs.withColumn("over", over)
    told = F.concat(
        F.transform("minutes", lambda it: _fact(it["minute"], F.lit("messages"), it["count"])),
        F.array(
            _fact(begun, F.lit("begun")),
            # If the beginning of a dialog is not known, earlier replies may be gone too. So no reply is counted.
            _fact(F.when(begun.isNotNull(), F.col("reply_at")), F.lit("replied"), seconds=_seconds(begun, F.col("reply_at"))),
            _fact(F.col("over.at"), F.col("over.what"), code=F.col("over.code"), seconds=_seconds(begun, F.col("over.at"))),
            # A dialog whose beginning is not known was never counted as open.
            _fact(F.when(begun.isNotNull(), F.col("over.at")), F.lit("closed")),
        ),
    )  # fmt: skip
    return ends.select(*PAIR, F.explode(told).alias("fact")).select(*PAIR, "fact.*").where("minute is not null")


def _fact(
    at: Column, what: Column, count: Column | None = None, code: Column | None = None, seconds: Column | None = None
) -> Column:
    values = (
        F.date_trunc("minute", at).alias("minute"), what.alias("what"), (F.lit(1) if count is None else count).alias("count"),
        (F.lit(None) if code is None else code).alias("code"), (F.lit(None) if seconds is None else seconds).alias("seconds"),
    )  # fmt: skip
    return F.struct(*values).cast(_FACT)


def _seconds(begin: Column, end: Column) -> Column:
    return (F.unix_micros(end) - F.unix_micros(begin)) / 1e6


def _counted(found: DataFrame) -> DataFrame:
    def of(what: str) -> Column:
        return F.col("what") == what

    def total(what: str) -> Column:
        return F.sum(F.when(of(what), F.col("count")).otherwise(0))

    def quantiles(what: Column, name: str) -> list[Column]:
        found = F.percentile_approx(F.when(what, F.col("seconds")), list(_SHARES.values()))
        return [found[at].alias(f"{name}_{share}") for at, share in enumerate(_SHARES)]

    codes = F.collect_list(F.when(of("errored"), F.col("code")))
    over = F.col("what").isin("ended", "errored", "expired")
    grouped = found.groupBy(*KEY).agg(
        *(total(name).alias(name) for name in _COUNTS), codes.alias("codes"), *quantiles(of("replied"), "reply"),
        *quantiles(over, "end"), (total("begun") - total("closed")).alias("more"),
        F.sum(F.when(of("backlog"), F.col("count"))).alias("backlog"),
    )  # fmt: skip
    so_far = Window.partitionBy(*PAIR).orderBy("minute").rowsBetween(Window.unboundedPreceding, 0)
    codes = F.transform(
        F.array_sort(F.array_distinct("codes")),
        lambda code: F.struct(code, F.size(F.filter("codes", lambda it: it == code)).cast("long")),
    )
    return grouped.select(
        *KEY, *_COUNTS[:5], F.map_from_entries(codes).alias("errors"), "replied", *_TIMES,
        F.sum("more").over(so_far).alias("open"), "backlog",
    )  # fmt: skip


def _every_minute(counted: DataFrame, since: datetime, until: datetime) -> DataFrame:
    """Return a row for each minute of a range, from the first row of a service and contract on.

    A minute without events repeats ``open`` of the row before. Its other counts are 0, and its times are null.
    """
    mine = Window.partitionBy(*PAIR).orderBy("minute")
    first = F.greatest("minute", F.lit(since))
    last = F.coalesce(F.lead("minute").over(mine), F.lit(until)) - F.lit(MINUTE)
    minutes = F.when(first <= last, F.sequence(first, last, F.lit(MINUTE)))
    own = F.col("minute") == F.col("of")
    return counted.withColumn("minutes", minutes).select("*", F.explode("minutes").alias("of")).select(
        F.col("of").alias("minute"), *PAIR, *(F.when(own, F.col(name)).otherwise(0).alias(name) for name in _COUNTS[:5]),
        F.map_filter("errors", lambda _code, _count: own).alias("errors"),
        F.when(own, F.col("replied")).otherwise(0).alias("replied"),
        *(F.when(own, F.col(name)).alias(name) for name in _TIMES), "open", F.when(own, F.col("backlog")).alias("backlog"),
    )  # fmt: skip


def unread(spark: SparkSession, wire: Wire, talkers: Sequence[str]) -> DataFrame:
    """Count the messages that the owners of the queues have not read. Columns: service, contract, backlog.

    The positions of owners come from the state rows of partitions. If a partition has no row, none of its records has been read.
    """
    marks = state.read_rows(spark, wire, talkers, "P")
    fields = marks.select("service", "partition", state.fields_of("partition").alias("p"))
    read = fields.select("service", "partition", "p.queue").collect()
    positions = {(row["service"], row["partition"]): row["queue"] for row in read}
    start = {
        wire.queue(name): {str(number): positions.get((name, number), -2) for number in range(wire.partitions(name))}
        for name in talkers
    }
    # Records that Kafka dropped before they were read are not part of the backlog, so the query must not fail because of them.
    patient = Wire(wire.kafka, {**wire.options, "failOnDataLoss": "false"})
    records = patient.read_offsets(spark, json.dumps(start), "latest", [wire.queue(name) for name in talkers])
    e = F.col("envelope")
    sent = judged_records(wire, talkers, records).where(is_message())
    service = F.when(e["from_initiator"], e["to_service"]).otherwise(e["from_service"]).alias("service")
    return sent.groupBy(service, e["contract"].alias("contract")).agg(F.count("*").alias("backlog"))


def publish(rows: DataFrame, wire: Wire) -> str:
    """Write rows to the metrics topic of the namespace, and return the name of the topic. A missing topic is created."""
    topic = create_metrics_topic(wire.kafka)
    at = F.date_format("minute", "yyyy-MM-dd'T'HH:mm:ss'Z'")
    records = rows.select(
        F.concat_ws("/", *PAIR, at).alias("key"),
        F.to_json(F.struct(*rows.columns), {"ignoreNullFields": "false"}).alias("value"),
    )
    settings = {f"kafka.{name}": value for name, value in java_settings(wire.kafka.settings).items()}
    given = {name: value for name, value in wire.options.items() if name.startswith("kafka.")}
    options = {
        "kafka.bootstrap.servers": wire.kafka.bootstrap,
        "kafka.acks": "all",
        **settings,
        **given,
        "topic": topic,
    }
    records.write.format("kafka").options(**options).save()
    return topic


def job(spark: SparkSession, options: argparse.Namespace) -> Result:
    """Read messages, compute the rows, write them to ``--out`` and ``--publish``, and report sums."""
    since, until = _range(options)
    wire = Wire(kafka_of(options), dict(options.option))
    state.services_of(wire, options.service)
    from_then = None if options.lookback is None else since - options.lookback
    messages = read_dialogs(
        spark, bootstrap=wire.kafka, service=options.service, since=from_then, until=until, options=wire.options
    )
    # Only the present backlog can be counted. It belongs to the newest minute, so the range must go up to now.
    backlog = unread(spark, wire, wire.talkers(options.service, None)) if options.until is None else None
    rows = transform(messages, since, until, backlog)
    if options.service is not None:
        rows = rows.where(F.col("service") == options.service)
    rows = rows.localCheckpoint()
    written = {}
    if options.out:
        files = DayFiles(spark, options.out, KEY, "minute")
        rows = _with_old_backlog(rows, files).localCheckpoint()
        files.replace(rows)
        written["out"] = options.out
    if options.publish:
        written["topic"] = publish(rows, wire)
    pairs = [row.asDict() for row in summed(rows).collect()]
    data = {
        "since": since.isoformat(), "until": until.isoformat(), "rows": sum(it["minutes"] for it in pairs),
        "pairs": pairs, **written,
    }  # fmt: skip
    return Result(data, _text(pairs, since, until, written))


def _range(options: argparse.Namespace) -> tuple[datetime, datetime]:
    until = options.until or minute_of(datetime.now(UTC) - COMPLETE_AFTER)
    since = options.since or until - RANGE
    if since >= until:
        raise DeclarationError(
            f"--since {since:%Y-%m-%dT%H:%MZ} is not before --until {until:%Y-%m-%dT%H:%MZ}; without --until the range ends "
            "with the last whole minute"
        )
    return since, until


def _with_old_backlog(rows: DataFrame, files: DayFiles) -> DataFrame:
    """Keep the backlog that an earlier run found for a minute."""
    before = files.read(rows).where("backlog is not null").select(*KEY, F.col("backlog").alias("old"))
    kept = rows.join(before, [*KEY], "left").withColumn("backlog", F.coalesce("backlog", "old"))
    return kept.select(*rows.columns)


def summed(rows: DataFrame) -> DataFrame:
    """Sum up the rows of a range, to one row for each service and contract."""
    last = (F.max_by(name, "minute").alias(name) for name in ("open", "backlog"))
    return rows.groupBy(*PAIR).agg(
        F.count("*").alias("minutes"), *(F.sum(name).alias(name) for name in _COUNTS), *last
    ).orderBy(*PAIR)  # fmt: skip


def _text(pairs: list[dict[str, Any]], since: datetime, until: datetime, written: dict[str, str]) -> str:
    range_ = f"{since:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M} UTC"
    if not pairs:
        return f"no messages: {range_}"
    names = [*pairs[0]]
    where = ", ".join(written.values()) or "nowhere: see --out and --publish"
    table = as_text([name.upper() for name in names], ([it[name] for name in names] for it in pairs))
    return f"{table}\n{sum(it['minutes'] for it in pairs)} rows, {range_}, written to {where}"


def parser() -> argparse.ArgumentParser:
    """Return the parser of the job's options."""
    made = parser_of(
        "dialog-metrics", "Count and time dialogs by minute, service and contract.",
        "conversations spark dialog-metrics --bootstrap localhost:9092 --out metrics --publish",
    )  # fmt: skip
    made.add_argument("--service", help="only dialogs that were begun with this service (default: all)")
    made.add_argument(
        "--since", type=argument(minute), metavar="MINUTE", help="first minute (default: one hour before --until)"
    )
    made.add_argument(
        "--until", type=argument(minute), metavar="MINUTE", help="the minute after the last minute (default: now)"
    )
    made.add_argument(
        "--lookback", type=argument(span), metavar="SPAN",
        help="how long before --since to read, to find open dialogs (default: as far back as Kafka has records)",
    )  # fmt: skip
    made.add_argument(
        "--out", metavar="DIR", help="write the rows as Parquet; they replace older rows of the same minutes"
    )
    made.add_argument("--publish", action="store_true", help="write the rows to the topic <namespace>.metrics")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    return carry_out(parser(), argv, job)


if __name__ == "__main__":
    sys.exit(main())
