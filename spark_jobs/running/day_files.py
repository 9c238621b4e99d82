"""A Parquet table of rows by day, of which some rows can be replaced: again and again with the same result.

The rows of a day are in ``day=2026-09-01/``, one file for each. A replacement writes the days it touches beside them, the
rows it leaves alone included, and puts each in its place when all are written; one that dies in between is finished by the
next. Whoever reads meanwhile may find a day missing for a moment, never one with rows twice. One writer at a time.
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
    """The table in one directory of any file system that Spark knows.

    Args:
        spark: the session.
        directory: made when it is missing; its path has no character of patterns.
        key: columns that name a row.
        at: the time that says which day a row is of.
    """

    def __init__(self, spark: SparkSession, directory: str, key: Sequence[str], at: str) -> None:
        self._spark, self._key, self._at = spark, list(key), at
        self._directory = Directory(spark, directory)

    def read(self, like: DataFrame) -> DataFrame:
        """Return what the table has, with the columns of ``like``; those it lacks are null."""
        self._finish()
        self._directory.make()
        schema = self._dated(like).schema
        return self._spark.read.schema(schema).parquet(self._directory.path)

    def replace(self, rows: DataFrame) -> None:
        """Put rows in the place of those with the same key; all others stay.

        Raises:
            CheckpointError: the file system did not move what was written; the next replacement tries again.
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
        """Put in place what was written to its end; what was not is forgotten."""
        place = self._directory
        if place.exists(f"{_STAGED}/{_WRITTEN}"):
            for name in place.names(_STAGED):
                if name.startswith(f"{DAY}="):
                    place.delete(name)
                    if not place.move(f"{_STAGED}/{name}", name):
                        raise CheckpointError(
                            f"{place.path}: {_STAGED}/{name} could not be moved to {name}: run it again"
                        )
        place.delete(_STAGED)
