"""A Parquet table by day, in which rows can be replaced. A repeated replacement has the same result.

The rows of a day are in one file, in ``day=2026-09-01/``. A replacement first writes each changed day as a whole into a
separate folder, with the new rows and the old rows that stay. When all these days are written, each new day takes the place of
the old day. If the process dies during these moves, the next replacement or read moves the remaining days. A reader may miss a day for a
moment, but never finds a row twice. Only one writer may work at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from spark_jobs.errors import CheckpointError
from spark_jobs.running.storage import Directory

DAY = "day"
_STAGED, _WRITTEN = "_replacing", "_SUCCESS"


class DayFiles:
    """The table in a directory.

    Args:
        spark: the session.
        directory: a path or URL without pattern characters such as ``*``; created if it is missing.
        key: columns that identify a row.
        at: the column with the time of a row.
    """

    def __init__(self, spark: SparkSession, directory: str, key: Sequence[str], at: str) -> None:
        self._spark, self._key, self._at = spark, list(key), at
        self._directory = Directory(spark, directory)

    def read(self, like: DataFrame) -> DataFrame:
        """Read the table with the columns of ``like``. A column that the table lacks is null."""
        self._finish()
        self._directory.make()
        schema = self._dated(like).schema
        return self._spark.read.schema(schema).parquet(self._directory.path)

    def replace(self, rows: DataFrame) -> None:
        """Replace the rows that have the same key; other rows stay.

        Raises:
            CheckpointError: the file system did not move a new day; the next replacement tries again.
        """
        new = self._dated(rows)
        before = self.read(rows)
        days = [row[DAY] for row in new.select(DAY).distinct().collect()]
        kept = before.where(F.col(DAY).isin(days)).join(new, self._key, "left_anti")
        whole = new.unionByName(kept).repartition(DAY).sortWithinPartitions(DAY, *self._key)
        whole.write.partitionBy(DAY).mode("overwrite").parquet(f"{self._directory.path}/{_STAGED}")
        self._finish()

    def _dated(self, rows: DataFrame) -> DataFrame:
        return rows.withColumn(DAY, F.to_date(self._at))

    def _finish(self) -> None:
        """Finish a replacement if all its days were written; otherwise drop it."""
        place = self._directory
        if place.exists(f"{_STAGED}/{_WRITTEN}"):
            for name in place.names(_STAGED):
                if name.startswith(f"{DAY}="):
                    place.delete(name)
                    if not place.move(f"{_STAGED}/{name}", name):
                        raise CheckpointError(
                            f"{place.path}: {_STAGED}/{name} could not be moved to {name}: run the job again"
                        )
        place.delete(_STAGED)
