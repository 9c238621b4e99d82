"""A table by day of which rows are replaced, also by a run that follows one that died."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.running.day_files import DayFiles

START = datetime(2026, 9, 1, 23, 58, tzinfo=UTC)
Row = tuple[int, str, int]
"""Minutes from the start, what, and how many."""


def frame(spark: SparkSession, *rows: Row) -> DataFrame:
    made = [(START + timedelta(minutes=at), what, count) for at, what, count in rows]
    return spark.createDataFrame(made, "minute timestamp, what string, count int")


def table(spark: SparkSession, directory: Path) -> list[Row]:
    rows = spark.read.parquet(str(directory)).collect()
    return sorted(
        (int((row.minute.astimezone(UTC) - START).total_seconds() // 60), row.what, row["count"]) for row in rows
    )


class Dies(DayFiles):
    """Dies when everything is written and nothing is in its place."""

    def _finish(self) -> None:
        if self._directory.exists("_replacing/_SUCCESS"):
            raise KeyboardInterrupt
        super()._finish()


def files(spark: SparkSession, directory: Path, kind: type[DayFiles] = DayFiles) -> DayFiles:
    return kind(spark, str(directory), ["minute", "what"], "minute")


def test_rows_with_the_same_key_are_replaced_and_others_stay(spark: SparkSession, tmp_path: Path) -> None:
    where = tmp_path / "metrics"
    files(spark, where).replace(frame(spark, (0, "a", 1), (1, "a", 1), (1, "b", 1), (2, "a", 1)))
    assert sorted(it.name for it in where.glob("day=*")) == ["day=2026-09-01", "day=2026-09-02"]
    again = frame(spark, (1, "a", 2), (3, "a", 2))
    for _ in range(2):
        files(spark, where).replace(again)
        assert table(spark, where) == [(0, "a", 1), (1, "a", 2), (1, "b", 1), (2, "a", 1), (3, "a", 2)]
    assert [len(list(day.glob("*.parquet"))) for day in where.glob("day=*")] == [1, 1]
    assert not (where / "_replacing").exists()


def test_a_run_that_died_is_finished_or_forgotten_by_the_next(spark: SparkSession, tmp_path: Path) -> None:
    where = tmp_path / "metrics"
    files(spark, where).replace(frame(spark, (0, "a", 1), (2, "a", 1)))
    with pytest.raises(KeyboardInterrupt):
        files(spark, where, Dies).replace(frame(spark, (1, "a", 2), (2, "a", 2)))
    assert table(spark, where) == [(0, "a", 1), (2, "a", 1)], "readers see nothing of it"
    files(spark, where).replace(frame(spark, (3, "a", 3)))
    assert table(spark, where) == [(0, "a", 1), (1, "a", 2), (2, "a", 2), (3, "a", 3)]

    with pytest.raises(KeyboardInterrupt):
        files(spark, where, Dies).replace(frame(spark, (0, "a", 9)))
    (where / "_replacing" / "_SUCCESS").unlink()  # it died while it wrote
    assert sorted(row["count"] for row in files(spark, where).read(frame(spark)).collect()) == [1, 2, 2, 3]
    assert not (where / "_replacing").exists()


def test_columns_that_came_later_are_null_before(spark: SparkSession, tmp_path: Path) -> None:
    where = tmp_path / "metrics"
    files(spark, where).replace(frame(spark, (0, "a", 1)).drop("count"))
    files(spark, where).replace(frame(spark, (1, "a", 2)))
    found = files(spark, where).read(frame(spark)).orderBy("minute").collect()
    assert [row["count"] for row in found] == [None, 2]
