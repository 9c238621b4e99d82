"""Spark part of ``conversations demo``: it archives, counts and audits the dialogs, and adds up the flights.

``python -m spark_jobs.demo DIRECTORY --bootstrap HOST:PORT --json`` prints the results as one JSON object.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from datetime import UTC
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from conversations_ops.console.times import MINUTE, minute_of
from conversations_ops.demo.messages import FLIGHTS
from conversations_ops.demo.pipeline import STEP
from spark_jobs.archive import Archive
from spark_jobs.delivery_audit import audit
from spark_jobs.dialog_metrics import summed
from spark_jobs.dialog_metrics import transform as minutes
from spark_jobs.reading.archived import read_archive
from spark_jobs.reading.clusters import clusters
from spark_jobs.reading.wire import Wire
from spark_jobs.running.command_line import Result, carry_out, kafka_of, parser_of
from spark_jobs.running.storage import Directory


def utilisation(messages: DataFrame) -> DataFrame:
    """Add up the flights and minutes in the air of each aircraft and day of scheduled departure.

    ``messages`` are under the contract Flights, with ``body``. Columns: aircraft, day, flights, minutes.
    """
    leg = F.col("body.Leg")
    flown = messages.where(leg.isNotNull() & leg["delay"].isNotNull())
    day = F.to_date(leg["scheduled"]).cast("string")
    minutes = F.coalesce(F.sum(leg["air_minutes"]), F.lit(0))
    return flown.groupBy(F.col("key").alias("aircraft"), day.alias("day")).agg(
        F.count(F.lit(1)).alias("flights"), minutes.alias("minutes")
    )


def _metrics(messages: DataFrame) -> list[dict[str, Any]]:
    """Count and time messages by service and contract."""
    first, last = messages.agg(F.min("appended_at"), F.max("appended_at")).collect()[0]
    since, until = minute_of(first.replace(tzinfo=UTC)), minute_of(last.replace(tzinfo=UTC)) + MINUTE
    return [row.asDict() for row in summed(minutes(messages, since, until)).collect()]


def _tell(text: str) -> None:
    print(f"{STEP}{text}", file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the Spark part of the demo; return its exit code."""
    parser = parser_of("demo", "The Spark part of the demo.", "conversations demo")
    parser.add_argument("directory", help="directory of the archive")
    return carry_out(parser, argv, _job)


def _job(spark: SparkSession, options: argparse.Namespace) -> Result:
    started = time.monotonic()
    archive = Archive(spark, Wire(kafka_of(options), {}), Directory(spark, options.directory))
    batches = list(archive.catch_up())
    _tell(f"Spark has archived {sum(batch.messages for batch in batches):,} messages; it counts and times them ...")
    messages = read_archive(spark, options.directory, contract=FLIGHTS)
    counted = _metrics(read_archive(spark, options.directory)) if batches else []
    _tell("it audits all topics ...")
    audited = audit(spark, clusters(archive.wire, {}))
    rows = [[row.aircraft, row.day, row.flights, row.minutes] for row in utilisation(messages).collect()]
    data = {
        "archived": sum(batch.messages for batch in batches),
        "set_aside": sum(batch.set_aside for batch in batches),
        "metrics": counted,
        "audit": dict(audited.data),
        "utilisation": sorted(rows),
        "seconds": round(time.monotonic() - started, 1),
    }
    return Result(data, f"{data['archived']:,} messages archived, {len(rows):,} days of aircraft added up")


if __name__ == "__main__":
    sys.exit(main())
