"""Results of a job as Parquet, a folder for each run."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it


def save(found: DataFrame, directory: str, at: datetime) -> None:
    """Write rows to ``directory/taken_at=<second>``; other folders stay as they are.

    A second call for the same second replaces the rows. If a run dies, readers see none of its rows.
    """
    moment = F.lit(at.replace(microsecond=0))
    rows = found.withColumn("taken_at", moment)
    writer = rows.coalesce(1).write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
    writer.partitionBy("taken_at").parquet(directory)
