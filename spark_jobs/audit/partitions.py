"""What is wrong with a partition as a whole."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from spark_jobs.audit.faults import PARTITION_FAULTS
from spark_jobs.rows import fields_of


def partition_faults(rows: DataFrame, places: DataFrame) -> DataFrame:
    """Find the faults of partitions: service, partition, fault, count, what."""
    by = ["service", "partition"]
    ahead = places.where("not is_commands and position > end").select(*by, F.lit("position-ahead").alias("fault"))
    fell = rows.where(F.array_contains("fell", "position-fell")).select(*by, F.lit("position-fell").alias("fault"))
    owned = rows.where("current and row = 'P'").select(*by).distinct()
    orphans = rows.where("current and row != 'P'").select(*by).distinct().join(owned, by, "left_anti")
    broken = rows.where("current and row in ('E', 'F', 'P', 'H', 'D', 'W', 'R')").where(_unreadable()).select(*by)
    found = reduce(
        DataFrame.unionByName,
        (ahead, fell, *(frame.select(*by, F.lit(name).alias("fault")) for frame, name in ((orphans, "partition-missing"), (broken, "row-broken")))),
    )  # fmt: skip
    says = F.create_map(*(F.lit(it) for pair in PARTITION_FAULTS.items() for it in pair))
    return found.groupBy(*by, "fault").agg(F.count("*").alias("count")).select("*", says[F.col("fault")].alias("what"))


def _unreadable() -> Column:
    """Tell a row that is of none of the schemas, or breaks off."""
    fields = (
        fields_of("endpoint").next_in,
        fields_of("tombstone").accepted,
        fields_of("park").first,
        fields_of("partition").queue,
        fields_of("waiting").offset,
    )
    return F.coalesce(*(field.cast("long") for field in fields)).isNull()
