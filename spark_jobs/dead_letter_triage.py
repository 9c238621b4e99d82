"""Dead letters in groups, so that a person can decide where to look first.

    spark-submit ... spark_jobs/dead_letter_triage.py --bootstrap kafka:9092
    conversations spark dead-letter-triage --service orders --new-within 2h --json

Letters of one group have the same service, reason, exception, message type, contract and peer. For each group the job shows:

* the number of letters, and the number of open letters. Here a letter for which a dialog waits is open too. The command
  ``conversations dead-letters list`` shows these letters. With ``--detached`` the command shows the other open letters;
* the number of records parked behind held letters;
* the times of the first and the last letter;
* the trend: the number of letters in the last ``--window``, and in the window before it;
* one letter as an example, and the command that shows it.

A letter counts once. If a source has several letters, only the last counts. If a letter is in parts, only the first part counts.
Failed handlers of timers have no letter, and messages that turned their queue off have no letter: see ``stuck_dialogs``.

A group is new if its first letter in the topic is not older than ``--new-within``. The job remembers nothing between runs, so two runs
at the same time have the same result. The topic keeps letters for 90 days. So a group is new again if it has had no letter for 90 days.

With ``--cluster emea``, the letters of that cluster are grouped, too, in groups of their own: ``cluster`` names it, and is null for the namespace itself.

The job changes no letter. With ``--out`` it keeps the groups as Parquet, in ``taken_at=<the run's second>``, and does not touch
the folders of other runs.

Exit codes: 0 no new group, 1 a new group, 2 wrong usage, 3 Kafka unreachable.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from conversations_ops.console.exit_codes import Exit
from conversations_ops.console.tables import as_text
from conversations_ops.console.times import plain, span, written
from conversations_ops.settings.given import settings_by_cluster
from spark_jobs.reading import rows as state
from spark_jobs.reading.clusters import Part, clusters
from spark_jobs.reading.letters import open_letters, read_letters
from spark_jobs.reading.parked import parked
from spark_jobs.reading.wire import Wire
from spark_jobs.running.arguments import argument
from spark_jobs.running.command_line import Result, add_clusters, carry_out, kafka_of, parser_of
from spark_jobs.running.snapshots import save

HOUR = timedelta(hours=1)
GROUP = ("service", "reason", "exception", "type", "contract", "peer")
NEEDED = "EFLRT"
"""Kinds of state rows that are needed to find open letters."""
MESSAGE_LIMIT = 200
"""Maximum number of characters of an exception's message in a group."""


@dataclass(frozen=True)
class Asked:
    """The time of the run, and the options that decide which letters are counted and which groups are new."""

    now: datetime
    window: timedelta = HOUR
    """Length of each of the two windows that are compared."""
    new_within: timedelta = HOUR
    since: datetime | None = None
    """Letters before this time are not counted. They still show that a group is not new."""


def transform(letters: DataFrame, rows: DataFrame, asked: Asked) -> DataFrame:
    """Group letters.

    ``letters`` come from ``spark_jobs.reading.letters.read_letters``. ``rows`` are the newest state rows (``NEEDED``) of their
    services. Only the last letter of each source is counted. Earlier letters of a source only show how old the group is.

    There is a row for each group with letters since ``asked.since``. Columns: service, reason, exception (the class, without
    its module), type, contract, peer; ``new``; count, open, ``parked_behind``; first, last; ``recent`` and ``before`` (number of
    letters in the last window, and in the window before it); ``letter`` (an example: the newest open letter, or else the newest
    letter), ``message`` (text of its exception), and ``next`` (the next command for it).
    """
    at, behind = F.col("at"), F.coalesce("behind", F.lit(0))
    judged = _judged(letters, rows)
    recent, before = F.lit(asked.now - asked.window), F.lit(asked.now - 2 * asked.window)
    counted = F.col("is_last") & (F.lit(True) if asked.since is None else at >= F.lit(asked.since))
    example = F.max_by(F.struct("letter", "message", _next().alias("next")), F.when(counted, F.struct("open", "at")))
    groups = judged.groupBy(*GROUP).agg(
        (F.min("at") >= F.lit(asked.now - asked.new_within)).alias("new"), F.count_if(counted).alias("count"),
        F.count_if(counted & F.col("open")).alias("open"),
        F.sum(F.when(counted, behind).otherwise(0)).alias("parked_behind"), F.min("at").alias("first"),
        F.max("at").alias("last"), F.count_if(F.col("is_last") & (at > recent)).alias("recent"),
        F.count_if(F.col("is_last") & (at > before) & (at <= recent)).alias("before"), example.alias("example"),
    )  # fmt: skip
    return groups.where(F.col("count") > 0).select("*", "example.*").drop("example")


def _judged(letters: DataFrame, rows: DataFrame) -> DataFrame:
    """Add ``open``, and the number of records behind each letter. Keep only the first part of a letter in parts."""
    waits = parked(rows).select("letter", "behind", (F.col("held") | F.col("queue_off")).alias("held_back"))
    is_open = open_letters(rows).withColumn("listed", F.lit(True))
    whole = letters.where(F.col("part").isNull() | F.col("part").startswith("1/"))
    whole = whole.withColumn("is_last", F.col("offset") == F.max("offset").over(Window.partitionBy("letter")))
    found = whole.join(waits, "letter", "left").join(is_open, "letter", "left")
    held_back, listed = (F.coalesce(name, F.lit(False)) for name in ("held_back", "listed"))
    return found.select(
        "letter", "service", "reason", F.regexp_extract("exception", r"([^.]*)$", 1).alias("exception"), "type", "contract",
        "peer", "behind", F.substring("exception_message", 1, MESSAGE_LIMIT).alias("message"),
        F.coalesce("failed_at", "written_at").alias("at"), held_back.alias("held_back"),
        "is_last", (held_back | listed | (F.col("reason") == "foreign")).alias("open"),
    )  # fmt: skip


def _next() -> Column:
    show = F.concat(F.lit("conversations dead-letters show "), F.col("letter"))
    listed = F.concat(F.lit("conversations dead-letters list "), F.col("service"), F.lit(" --detached"))
    return F.when(F.col("held_back"), show).when(F.col("open"), listed)


def job(spark: SparkSession, options: argparse.Namespace) -> Result:
    """Read and group letters, write the groups to ``--out``, and report them."""
    now = datetime.now(UTC)
    known = clusters(Wire(kafka_of(options), dict(options.option)), settings_by_cluster(options.cluster))
    since = None if options.since is None else now - options.since
    asked = Asked(now, options.window, options.new_within, since)
    parts = known.everywhere(options.service).items()
    groups = reduce(DataFrame.unionByName, (_groups(spark, name, part, asked) for name, part in parts))
    if options.out:
        save(groups, options.out, now)
    order = F.desc("new"), F.desc("open"), F.desc("count"), F.desc("last")
    found = [row.asDict() for row in groups.orderBy(*order, "cluster", *GROUP).collect()]
    fresh = sum(it["new"] for it in found)
    data = {
        "groups": [plain(it) for it in found], "new": fresh, "letters": sum(it["count"] for it in found),
        "open": sum(it["open"] for it in found), "taken_at": now.isoformat(timespec="seconds"),
    }  # fmt: skip
    text = _text(found, asked, fresh, several=bool(options.cluster))
    return Result(data, text, Exit.HUMAN if fresh else Exit.FINE)


def _groups(spark: SparkSession, cluster: str, part: Part, asked: Asked) -> DataFrame:
    """Read and group the letters of one cluster. The column ``cluster`` has its name; null for the namespace itself."""
    # Read the rows after the letters. A letter and its row are in one transaction, so no row of a letter is missed.
    letters = read_letters(spark, part.wire, part.services).drop("key", "value", "headers").localCheckpoint()
    rows = state.read_rows(spark, part.wire, part.services, NEEDED).localCheckpoint()
    found = transform(letters, rows, asked)
    if cluster:
        kafka = part.wire.kafka
        where = shlex.join([f"--bootstrap={kafka.bootstrap}", f"--namespace={kafka.namespace}"])
        found = found.withColumn("next", F.concat("next", F.lit(f" {where}")))
    return found.withColumn("cluster", F.lit(cluster or None).cast("string")).localCheckpoint()


def _text(found: list[dict[str, Any]], asked: Asked, fresh: int, *, several: bool) -> str:
    if not found:
        return "there are no dead letters"
    names: tuple[str, ...] = (
        "",
        "SERVICE",
        "REASON",
        "EXCEPTION",
        "TYPE",
        "CONTRACT",
        "PEER",
        "OPEN",
        "BEHIND",
        "LAST",
        "TREND",
        "LETTER",
    )
    cells: list[tuple[object, ...]] = [
        ("NEW" if it["new"] else "", it["service"], it["reason"], _raised(it), it["type"], it["contract"], it["peer"],
         f"{it['open']} of {it['count']}", it["parked_behind"], f"{written(asked.now - it['last'].astimezone(UTC))} ago",
         f"{it['recent']} after {it['before']}", it["letter"])
        for it in found
    ]  # fmt: skip
    if several:
        names = ("CLUSTER", *names)
        cells = [(it["cluster"] or "here", *row) for it, row in zip(found, cells, strict=True)]
    new = f"{fresh} new within {written(asked.new_within)}"
    trend = f"TREND: number of letters in the last {written(asked.window)}, after the number in the {written(asked.window)} before that"
    return f"{as_text(names, cells)}\n{len(found)} groups, {new}. {trend}."


def _raised(it: dict[str, Any]) -> str:
    return ": ".join(filter(None, (it["exception"], it["message"])))


def parser() -> argparse.ArgumentParser:
    """Return the parser of the job's options."""
    made = parser_of(
        "dead-letter-triage", "Group dead letters by cause, and mark new groups.",
        "conversations spark dead-letter-triage --bootstrap localhost:9092 --new-within 2h",
    )  # fmt: skip
    made.add_argument("--service", help="only letters of this service (default: all)")
    add_clusters(made)
    made.add_argument(
        "--since", type=argument(span), metavar="SPAN", help="count letters up to this age, e.g. 7d (default: all)"
    )
    made.add_argument(
        "--window", type=argument(span), metavar="SPAN", default=HOUR, help="window of the trend (default: 1h)"
    )
    made.add_argument(
        "--new-within", type=argument(span), metavar="SPAN", default=HOUR,
        help="a group is new if its first letter is at most this old (default: 1h)",
    )  # fmt: skip
    made.add_argument(
        "--out", metavar="DIR", help="keep the groups as Parquet, in addition to the groups of other runs"
    )
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    return carry_out(parser(), argv, job)


if __name__ == "__main__":
    sys.exit(main())
