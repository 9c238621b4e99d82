"""Stuck dialogs, read from the state of their owners: the reason, the time, and the next command.

    spark-submit ... spark_jobs/stuck_dialogs.py --bootstrap kafka:9092
    conversations spark stuck-dialogs --older-than 2d --lifetime-within 30m --json

There is a row for each open side of a dialog that is stuck, with all its reasons:

    held             a message, or the handler of a timer or an error, was given up on, and waits for an operator
    queue-off        a message waits because its queue is off, or it has waited longer than --waiting-for because its worker's
                     brake is on
    retrying         a message has failed for longer than --waiting-for; it has a next attempt
    delayed          the peer's queue has taken no records for longer than --waiting-for, so records for it are kept as rows
    unacknowledged   messages are not acknowledged, and the row of this side has not changed for longer than --waiting-for:
                     the peer is down or far behind, or its queue is off
    lifetime-near    the lifetime ends within --lifetime-within, or it is over and the owner has not ended the dialog yet
    old              the dialog began longer ago than --older-than

If the id of a dialog is a UUIDv7, the id tells when the dialog began. With another id, the last change of the dialog's row counts
as the beginning. A side that sends all the time is not listed as unacknowledged, because its row changes. For it, see the backlog
in ``dialog_metrics``. A queue that is off is listed even if no dialog waits for it.

The job changes no dialog. With ``--out`` it keeps the stuck dialogs as Parquet, in ``taken_at=<the run's second>``, and does not
touch the folders of other runs.

Exit codes: 0 nothing is stuck, 1 a dialog is stuck or a queue is off, 2 wrong usage, 3 Kafka unreachable.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from conversations.protocol.states import State
from conversations_ops.console.exit_codes import Exit
from conversations_ops.console.tables import as_text
from conversations_ops.console.times import plain, span, written
from conversations_ops.printable import one_line
from spark_jobs.reading import rows as state
from spark_jobs.reading.parked import SIDE, endpoints, parked
from spark_jobs.reading.wire import Wire
from spark_jobs.running.arguments import argument, whole
from spark_jobs.running.command_line import Result, carry_out, kafka_of, parser_of
from spark_jobs.running.snapshots import save

DAY, HOUR, PATIENCE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=5)
SHOWN = 100
NEEDED = "DEFPRT"
"""Kinds of state rows that are needed to find stuck dialogs."""
_AWAITING = tuple(
    it.name
    for it in (
        State.CONVERSING, State.DISCONNECTED_OUTBOUND, State.FENCING, State.FENCING_OUTBOUND, State.SETTLING,
    )
)  # fmt: skip
"""States in which the peer owes an acknowledgement of sent messages, or the answer what it has accepted."""


@dataclass(frozen=True)
class Bounds:
    """The times after which a dialog is stuck."""

    now: datetime
    older_than: timedelta = DAY
    waiting_for: timedelta = PATIENCE
    lifetime_within: timedelta = HOUR

    @property
    def patient(self) -> Column:
        """Limit for the beginning of waits: a wait that began before this time is too long."""
        return F.lit(self.now - self.waiting_for)


def transform(rows: DataFrame, bounds: Bounds) -> DataFrame:
    """List the stuck sides of dialogs among newest state rows (``spark_jobs.reading.rows.read_rows``).

    Columns: service, partition, conversation_id, initiator, contract, peer, key, state, begun_at, expires_at;
    ``reasons`` (array of ``{reason, since, what}``, the most urgent first); ``since`` (the reasons' earliest time); ``letter``
    and ``behind`` (of the parked records of the side; null and 0 if it has none); ``next`` (the next command; null if there is none).
    """
    side = [*SIDE]
    found = (
        endpoints(rows)
        .join(_waits(rows, bounds), side, "left")
        .join(_delayed(rows), side, "left")
    )  # fmt: skip
    old, near = F.lit(bounds.now - bounds.older_than), F.lit(bounds.now + bounds.lifetime_within)
    silent = (F.col("unacknowledged") > 0) & F.col("state").isin(*_AWAITING) & (F.col("written_at") < bounds.patient)
    others = (
        _reason("delayed", F.col("delayed_at") < bounds.patient, F.col("delayed_at"), F.col("delayed_what")),
        _reason("unacknowledged", silent, F.col("written_at"), F.format_string("%d not acknowledged", "unacknowledged")),
        _reason(
            "lifetime-near", F.col("expires_at") <= near, F.col("expires_at") - F.lit(bounds.lifetime_within),
            F.concat(F.lit("ends at "), _moment(F.col("expires_at"))),
        ),
        _reason("old", F.col("begun_at") < old, F.col("begun_at"), F.concat(F.lit("begun at "), _moment(F.col("begun_at")))),
    )  # fmt: skip
    mine = F.filter(F.array(*others), lambda it: it.isNotNull())
    stuck = found.withColumn("reasons", F.when(F.col("waits").isNull(), mine).otherwise(F.concat("waits", mine)))
    return stuck.where(F.size("reasons") > 0).select(
        *side, "contract", "peer", "key", "state", "begun_at", "expires_at", "reasons",
        F.array_min(F.transform("reasons", lambda it: it["since"])).alias("since"), "letter",
        F.coalesce("behind", F.lit(0)).cast("long").alias("behind"), _next().alias("next"),
    )  # fmt: skip


def queues_off(rows: DataFrame) -> DataFrame:
    """List the partitions whose queues are off: service, partition, off, by, reason, since. ``queue show`` shows the same."""
    p = F.col("p")
    found = rows.where("row = 'P'").select("service", "partition", state.fields_of("partition").alias("p"))
    return found.where(p["off"] != "").select(
        "service", "partition", p["off"].alias("off"), p["off_by"].alias("by"), p["off_reason"].alias("reason"),
        F.timestamp_micros(p["off_since"]).alias("since"),
    )  # fmt: skip


def _waits(rows: DataFrame, bounds: Bounds) -> DataFrame:
    """Sum up the parked records of each side: ``waits`` (reasons), ``letter`` (to show first), ``behind`` (number of records)."""
    since, failed = F.col("since"), F.concat(F.col("what"), F.lit(" "), F.coalesce(F.col("failure"), F.lit("")))
    off = queues_off(rows).select("service", "partition", F.col("reason").alias("off_reason"), F.lit(True).alias("off"))
    found = parked(rows).join(F.broadcast(off), ["service", "partition"], "left")
    is_off = F.coalesce("off", F.lit(False))
    again = F.concat(failed, F.format_string(" (%d times, again at ", "attempts"), _moment(F.col("due")), F.lit(")"))
    why_off = F.coalesce(F.col("off_reason"), F.lit("its worker's brake is on"))
    reason = F.coalesce(
        _reason("held", F.col("held"), since, failed),
        _reason("queue-off", F.col("queue_off") & (is_off | (since < bounds.patient)), since, why_off),
        _reason("retrying", F.col("due").isNotNull() & (since < bounds.patient), since, again),
    )  # fmt: skip
    # 'dead-letters show' finds held letters, and letters whose failure turned the queue off.
    decidable = F.col("held") | (F.col("queue_off") & (F.col("failure") != ""))
    told = found.withColumn("reason", reason).where("reason is not null").withColumn("decidable", decidable)
    return told.groupBy(*SIDE).agg(
        # The alphabetical order of these reasons is also the order of their urgency.
        F.array_sort(F.collect_list("reason")).alias("waits"), F.sum("behind").alias("behind"),
        F.max_by("letter", F.struct("decidable", "since")).alias("letter"), F.max("decidable").alias("decidable"),
        F.max("queue_off").alias("queue_off"),
    )  # fmt: skip


def _delayed(rows: DataFrame) -> DataFrame:
    what = F.format_string("%d waiting for the queue of the peer", F.count("*"))
    return (
        rows.where("row = 'D'").groupBy(*SIDE).agg(F.min("written_at").alias("delayed_at"), what.alias("delayed_what"))
    )


def _reason(word: str, holds: Column, since: Column, what: Column) -> Column:
    return F.when(holds, F.struct(F.lit(word).alias("reason"), since.alias("since"), what.alias("what")))


def _next() -> Column:
    """Name the next command for an operator: about the failure, the side's queue, or the peer's queue."""
    words = F.transform("reasons", lambda it: it["reason"])
    command = F.lit("conversations ")
    show = F.concat(command, F.lit("dead-letters show "), F.col("letter"))
    retries = F.concat(command, F.lit("retries list "), F.col("service"))
    queue = F.concat(command, F.lit("queue show "))
    awaits_peer = F.array_contains(words, "delayed") | F.array_contains(words, "unacknowledged")
    return (
        F.when(F.col("decidable"), show).when(F.col("queue_off"), F.concat(queue, F.col("service")))
        .when(F.array_contains(words, "retrying"), retries).when(awaits_peer, F.concat(queue, F.col("peer")))
    )  # fmt: skip


def _moment(at: Column) -> Column:
    return F.date_format(at, "yyyy-MM-dd'T'HH:mm:ss'Z'")


def job(spark: SparkSession, options: argparse.Namespace) -> Result:
    """Read and judge dialogs, write the stuck dialogs to ``--out``, and report them."""
    now = datetime.now(UTC)
    wire = Wire(kafka_of(options), dict(options.option))
    bounds = Bounds(now, options.older_than, options.waiting_for, options.lifetime_within)
    rows = state.read_rows(spark, wire, state.services_of(wire, options.service), NEEDED).localCheckpoint()
    stuck = transform(rows, bounds).localCheckpoint()
    off = [row.asDict() for row in queues_off(rows).orderBy("service", "partition").collect()]
    if options.out:
        save(stuck, options.out, now)
    word = F.explode(F.transform("reasons", lambda it: it["reason"])).alias("reason")
    counts = {str(row["reason"]): int(row["count"]) for row in stuck.select(word).groupBy("reason").count().collect()}
    total = stuck.count()
    shown = [row.asDict(recursive=True) for row in stuck.orderBy("since", *SIDE).limit(options.most).collect()]
    data = {
        "stuck": total, "by_reason": counts, "dialogs": plain(shown), "queues_off": plain(off),
        "taken_at": now.isoformat(timespec="seconds"),
    }  # fmt: skip
    return Result(data, _text(shown, off, total, now), Exit.HUMAN if total or off else Exit.FINE)


def _text(shown: list[dict[str, Any]], off: list[dict[str, Any]], total: int, now: datetime) -> str:
    lines = [
        one_line(
            f"the queue of {it['service']} is off in partition {it['partition']} ({it['by']}: {it['reason']}): "
            f"conversations queue show {it['service']}"
        )
        for it in off
    ]
    if not total:
        return "\n".join([*lines, "no dialog is stuck"])
    names = "DIALOG", "SIDE", "SERVICE", "PEER", "CONTRACT", "STATE", "WHY", "SINCE", "BEHIND", "NEXT"
    cells = [
        (it["conversation_id"], "initiator" if it["initiator"] else "target", it["service"], it["peer"], it["contract"], it["state"],
         "; ".join(f"{one['reason']}: {one['what']}" for one in it["reasons"]), f"{written(now - it['since'].astimezone(UTC))} ago",
         it["behind"], it["next"])
        for it in shown
    ]  # fmt: skip
    more = f"; {total - len(shown)} more, see --most" if total > len(shown) else ""
    return "\n".join([*lines, as_text(names, cells), f"{total} sides of dialogs are stuck{more}"])


def parser() -> argparse.ArgumentParser:
    """Return the parser of the job's options."""
    made = parser_of(
        "stuck-dialogs", "List stuck dialogs: the reason, the time, and the next command.",
        "conversations spark stuck-dialogs --bootstrap localhost:9092 --older-than 2d",
    )  # fmt: skip
    made.add_argument("--service", help="only dialogs of this service (default: all)")
    made.add_argument(
        "--older-than",
        type=argument(span),
        metavar="SPAN",
        default=DAY,
        help="age at which a dialog is old (default: 1d)",
    )
    made.add_argument(
        "--waiting-for", type=argument(span), metavar="SPAN", default=PATIENCE,
        help="time after which a retry, or a wait for a peer, is stuck (default: 5m)",
    )  # fmt: skip
    made.add_argument(
        "--lifetime-within",
        type=argument(span),
        metavar="SPAN",
        default=HOUR,
        help="remaining time at which a lifetime is near its end (default: 1h)",
    )
    made.add_argument(
        "--most",
        type=whole(0),
        default=SHOWN,
        help=f"maximum number of dialogs to show, the longest stuck first (default: {SHOWN})",
    )
    made.add_argument(
        "--out", metavar="DIR", help="keep all stuck dialogs as Parquet, in addition to the dialogs of other runs"
    )
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    return carry_out(parser(), argv, job)


if __name__ == "__main__":
    sys.exit(main())
