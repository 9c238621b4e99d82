"""Proves from the topics that each message took effect once, in order, and that none was lost.

The job reads the queues, states, dead letters and events of services. For each dialog and direction it counts separately: sent
messages, accepted messages, settled messages, dead letters, and the messages in each other place, for example parked or in flight.
It lists every **fault**: a finding that is impossible if no message was lost, doubled or re-ordered (``spark_jobs.audit.faults``).
It needs no list of expected messages. It works on any namespace, also while its services run. The docstring of
``spark_jobs.audit.inputs`` explains why there is no false alarm.

    conversations spark delivery-audit --bootstrap localhost:9092
    spark-submit --packages ... spark_jobs/delivery_audit.py --bootstrap localhost:9092 --service loans --json

The **wire** is the records in the queues. A duplicate, a gap or a late number on the wire is no fault: the receiver drops
duplicates, waits for missing numbers, and sorts. A message is settled if the effects of its handler are committed, or if it is a
dead letter.

A sender may keep its messages until they are acknowledged (``resends``). Then a receiver whose dialog is over leaves a message that it has
not accepted to the sender. The audit finds each such message in a row of the sender, in a dead letter of the sender, or on the dialog
that replaces its dialog. A message that was both accepted and given back or sent again is a fault, unless its letter says that the sender
does not know whether the message was accepted.

The audit cannot judge the effects of a handler outside Kafka.

The audit does not judge these numbers:

* If retention or ``--since`` has cut the beginning of a queue, each direction is judged from the number of the first record that
  was sent after the cut. Records that were sent earlier may repeat records that are gone.
* If the tombstone of a side was deleted because its time was over, the numbers that this side accepted are not judged.
* A side may be closed without a record of it in a queue or at the peer. Then the numbers that this side sent are not judged,
  because its tombstone does not name the peer.

The job writes nothing. If a run was interrupted, start it again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from conversations_ops.console.exit_codes import Exit
from conversations_ops.printable import counted, one_line
from conversations_ops.settings.given import settings_by_cluster
from spark_jobs.audit import numbers, reports, sources, state
from spark_jobs.audit.directions import COUNTS, directions
from spark_jobs.audit.inputs import Inputs, read_inputs
from spark_jobs.audit.partitions import lost, partition_faults
from spark_jobs.errors import SourceError
from spark_jobs.reading.clusters import Clusters, clusters
from spark_jobs.reading.wire import Moment, Wire
from spark_jobs.running.command_line import Result, add_clusters, carry_out, kafka_of, parser_of

LISTED = 100
"""Number of faults that are listed by default."""
EXAMPLE = "conversations spark delivery-audit --bootstrap localhost:9092 --service loans"


@dataclass(frozen=True)
class Audit:
    """The result of an audit."""

    directions: DataFrame
    """One row per dialog and direction, from ``audit.directions``."""
    partitions: DataFrame
    """Faults of partitions: service, partition, fault, count, what."""

    def of(self, service: str) -> Audit:
        """Keep the dialogs of a service, and records that belong to no dialog."""
        mine = (F.col("from_service") == service) | (F.col("to_service") == service) | F.col("conversation_id").isNull()
        return Audit(self.directions.where(mine), self.partitions.where(F.col("service") == service))

    def faults(self) -> DataFrame:
        """List all faults: fault, conversation_id, to_target, number (the first with the fault), count, what, service, partition."""
        of_dialogs = self.directions.select(
            "conversation_id", "to_target", F.col("to_service").alias("service"), F.explode("faults").alias("found")
        )  # fmt: skip
        found = of_dialogs.select(
            "found.fault", "conversation_id", "to_target", "found.number", "found.count", "found.what", "service"
        )
        return found.unionByName(self.partitions, allowMissingColumns=True)


def transform(inputs: Inputs) -> Audit:
    """Audit the inputs.

    The table ``inputs.rows`` is used in many places. If the table comes from Kafka, pass the result of its ``localCheckpoint`` instead.
    """
    places = state.places(inputs.rows, inputs.extents)
    kept = state.kept(inputs.rows, inputs.writers, places)
    sides = state.sides(inputs.rows, kept, places, inputs.rules.partitions)
    replaced = state.successors(inputs.rows, inputs.records, kept)
    replaced = replaced.select("dialog", F.struct("carried", "from_number").alias("successor"))
    sides = sides.join(F.broadcast(replaced), "dialog", "left")
    found = sources.facts(inputs, places)
    more_facts = (
        numbers.kept_facts(kept), numbers.sent_facts(inputs.rows), sources.returned_facts(inputs.letters),
        numbers.side_facts(inputs.rows), reports.facts(inputs, kept, places),
    )  # fmt: skip
    for more in more_facts:
        found = found.unionByName(more, allowMissingColumns=True)
    judged = numbers.judged(numbers.numbers(found, sides))
    times = places.groupBy("service").agg(F.max("queue_time").alias("latest"))
    found = directions(judged, inputs.rules.services, times, lost(places))
    return Audit(found, partition_faults(inputs.rows, places))


def parser() -> argparse.ArgumentParser:
    """Make the parser of the job's options."""
    made = parser_of(
        "delivery-audit", "Prove from the topics that no message was lost, doubled or re-ordered.", EXAMPLE
    )
    made.add_argument("--service", help="only dialogs of this service (default: all services)")
    made.add_argument(
        "--since", metavar="TIME", help="read queues from this log time on, e.g. 2026-09-01; dialogs that began earlier are judged from this time on"
    )  # fmt: skip
    made.add_argument(
        "--list", type=int, default=LISTED, metavar="N", help=f"maximum number of faults to list (default: {LISTED})"
    )
    add_clusters(made)
    return made


def audited(spark: SparkSession, options: argparse.Namespace) -> Result:
    """Run the job."""
    found = clusters(Wire(kafka_of(options), dict(options.option)), settings_by_cluster(options.cluster))
    return audit(spark, found, options.service, options.since, options.list)


def audit(
    spark: SparkSession, read: Clusters, service: str | None = None, since: Moment | None = None, most: int = LISTED
) -> Result:
    """Audit the records that are in Kafka now, and report the faults.

    Raises:
        SourceError: a topic is missing, the catalog does not know the service, or a transaction stays open.
    """
    parts = read.parts(service, None)
    if not parts:
        raise SourceError(f"namespace {read.home.kafka.namespace!r} has no services: run 'conversations apply'")
    inputs = read_inputs(spark, parts, since)
    found = transform(replace(inputs, rows=inputs.rows.localCheckpoint()))
    found = found.of(service) if service else found
    kept = found.directions.persist()
    try:
        return report(Audit(kept, found.partitions), most)
    finally:
        kept.unpersist()


def report(audit: Audit, most: int) -> Result:
    """Run the queries of an audit, and return their result with at most ``most`` faults."""
    sums = [F.sum(name).alias(name) for name in COUNTS]
    dialogs = audit.directions.where("conversation_id is not null")
    totals = dialogs.agg(
        F.count_distinct("conversation_id").alias("dialogs"), F.count("*").alias("directions"), *sums,
        F.count_if("cut").alias("cut"), F.count_if("forgotten").alias("forgotten"), F.sum("follow").alias("follow"),
    ).collect()[0]  # fmt: skip
    faults = audit.faults()
    grouped = faults.groupBy("fault").agg(F.sum("count").alias("count"), F.count("*").alias("lines")).collect()
    by_name = {row["fault"]: row["count"] for row in grouped}
    listed = (
        faults.orderBy(F.col("conversation_id").isNotNull(), "conversation_id", "to_target", "fault", "partition")
        .limit(most)
        .collect()
        if by_name
        else []
    )
    sizes = {name: totals[name] or 0 for name in totals.asDict()}
    data = {
        "faults": sum(by_name.values()), "lines": sum(row["lines"] for row in grouped), "by_name": dict(sorted(by_name.items())), "totals": sizes,
        "listed": [row.asDict() for row in listed],
    }  # fmt: skip
    return Result(data, "\n".join(_lines(data, listed)), Exit.HUMAN if by_name else Exit.FINE)


def _lines(data: Mapping[str, Any], listed: Sequence[Row]) -> list[str]:
    totals = data["totals"]
    places = (
        "settled",
        "waiting",
        "parked",
        "held",
        "delayed",
        "in_flight",
        "letters",
        "with_sender",
        "returned",
        "duplicates",
        "missing",
        "reordered",
    )
    parts = ", ".join(f"{totals[name]:,} {name.replace('_', ' ')}" for name in places)
    lines = [
        f"{counted(totals['dialogs'], 'dialog')}, {counted(totals['sent'], 'message')} sent, {totals['accepted']:,} accepted: {parts}",
        f"{counted(totals['cut'], 'direction')} whose beginning is not in the log, {totals['forgotten']:,} whose receiver's row was deleted when its time was over",
    ]
    if not data["faults"]:
        return [*lines, "no faults"]
    lines.append(
        f"{counted(data['faults'], 'fault')}: "
        + ", ".join(f"{count:,} {name}" for name, count in data["by_name"].items())
    )
    if totals["follow"]:
        lines.append(
            f"{totals['follow']:,} more faults are not listed: the row of a partition of their dialogs is missing, and they may follow from that"
        )
    lines += [_line(row) for row in listed]
    return [
        *lines,
        *([f"and more: {len(listed)} lines are shown, --list shows more"] if len(listed) < data["lines"] else []),
    ]


def _line(row: Row) -> str:
    """Write a fault as one line."""
    where = row["conversation_id"] or " ".join(
        part for part in (row["service"], "" if row["partition"] is None else f"partition {row['partition']}") if part
    )
    way = "" if row["to_target"] is None else " to the target" if row["to_target"] else " from the target"
    number = "" if row["number"] is None else f", number {row['number']}"
    more = f" ({row['count']:,} times)" if row["count"] > 1 else ""
    return one_line(f"  {row['fault']}: {where}{way}{number}: {row['what']}{more}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job as a program; return its exit code, which is 1 if there are faults."""
    return carry_out(parser(), argv, audited)


if __name__ == "__main__":
    sys.exit(main())
