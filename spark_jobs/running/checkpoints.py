"""What a checkpoint belongs to, written down in it: another job must not go on with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from spark_jobs.errors import CheckpointError

IDENTITY = "job.json"


def claim(spark: SparkSession, directory: str, what: Mapping[str, str]) -> None:
    """Take a new checkpoint for a job, or see that it is the job's; ``directory`` is on any file system Spark knows.

    Raises:
        CheckpointError: it is another job's, or there is a checkpoint without a word about whose.
    """
    session: Any = spark
    hadoop = session._jvm.org.apache.hadoop.fs  # noqa: SLF001 - the one way to all file systems Spark knows
    path = hadoop.Path(directory, IDENTITY)
    files = path.getFileSystem(session._jsc.hadoopConfiguration())  # noqa: SLF001 - likewise
    if files.exists(path):
        _compare(directory, json.loads(spark.read.text(str(path), wholetext=True).collect()[0].value), what)
        return
    if files.exists(hadoop.Path(directory, "offsets")):
        raise CheckpointError(f"{directory} is the checkpoint of something else: give the job a directory of its own")
    new = hadoop.Path(directory, f"{IDENTITY}.new")
    out = files.create(new, True)
    out.write(bytearray(json.dumps(what).encode()))
    out.close()
    files.rename(new, path)


def _compare(directory: str, found: Mapping[str, str], what: Mapping[str, str]) -> None:
    other = [f"{name} {found.get(name)!r}, not {value!r}" for name, value in what.items() if found.get(name) != value]
    if other:
        raise CheckpointError(
            f"{directory} is the checkpoint of another job ({'; '.join(other)}): give the job a directory of its own"
        )
