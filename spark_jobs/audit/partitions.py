"""Faults of a partition as a whole."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from spark_jobs.audit.faults import PARTITION_FAULTS
from spark_jobs.audit.state import unreadable


def lost(places: DataFrame) -> frozenset[tuple[str, int]]:
    """Return the partitions whose row is missing, as (service, partition)."""
    found = places.where("not is_commands and position is null").select("service", "partition").collect()
    return frozenset((row["service"], row["partition"]) for row in found)


def partition_faults(rows: DataFrame, places: DataFrame) -> DataFrame:
    """Find the faults of partitions. Columns: service, partition, fault, count, what."""
    current = F.col("current")
    found = rows.groupBy("service", "partition").agg(
        F.count_if(current & (F.col("row") == "P")).alias("owned"), F.count_if(current).alias("rows"),
        F.count_if(F.array_contains("fell", "position-fell")).alias("position-fell"),
        F.count_if(current & unreadable()).alias("row-broken"),
    )  # fmt: skip
    queues = places.where("not is_commands").select("service", "partition", "position", "end")
    placed = found.join(F.broadcast(queues), ["service", "partition"], "left")
    counts = {
        "position-ahead": (F.col("position") > F.col("end")).cast("long"),
        "position-fell": F.col("position-fell"),
        "partition-missing": ((F.col("rows") > 0) & (F.col("owned") == 0)).cast("long"),
        "row-broken": F.col("row-broken"),
    }
    faults = [
        F.when(counts[name] > 0, F.struct(F.lit(name).alias("fault"), counts[name].alias("count"), F.lit(says).alias("what")))
        for name, says in PARTITION_FAULTS.items()
    ]  # fmt: skip
    return placed.select("service", "partition", F.explode(F.array_compact(F.array(*faults))).alias("it")).select(
        "service", "partition", "it.*"
    )
