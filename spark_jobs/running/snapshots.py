"""What a job found at one moment, kept as Parquet beside what it found before."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it


def save(found: DataFrame, directory: str, at: datetime) -> None:
    """Write rows to ``directory/taken_at=<second>``; nothing else in the directory is touched.

    The same moment again replaces its rows. A run that dies leaves nothing that a reader sees.
    """
    moment = F.lit(at.replace(microsecond=0))
    rows = found.withColumn("taken_at", moment)
    writer = rows.coalesce(1).write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
    writer.partitionBy("taken_at").parquet(directory)
