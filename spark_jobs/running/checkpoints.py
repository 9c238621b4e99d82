"""Labels of checkpoints. A file in each checkpoint names its job, so that no job continues from the checkpoint of another job."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from spark_jobs.errors import CheckpointError
from spark_jobs.running.storage import Directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IDENTITY = "job.json"


def claim(spark: SparkSession, directory: str, what: Mapping[str, str]) -> None:
    """Write the job into a new checkpoint, or check that an old checkpoint names this job.

    ``directory`` may be on any file system that Spark can write to. ``what`` names the job.

    Raises:
        CheckpointError: the checkpoint belongs to another job, names no job, or cannot be written.
    """
    checkpoint = Directory(spark, directory, listed=False)
    if checkpoint.exists(IDENTITY):
        _compare(directory, json.loads(checkpoint.read(IDENTITY)), what)
    elif checkpoint.exists("offsets"):
        raise CheckpointError(f"{directory} is the checkpoint of something else: give the job a directory of its own")
    elif not checkpoint.write(IDENTITY, json.dumps(what)):
        raise CheckpointError(f"{directory}/{IDENTITY} could not be written: run the job again")


def _compare(directory: str, found: Mapping[str, str], what: Mapping[str, str]) -> None:
    other = [f"{name} {found.get(name)!r}, not {value!r}" for name, value in what.items() if found.get(name) != value]
    if other:
        raise CheckpointError(
            f"{directory} is the checkpoint of another job ({'; '.join(other)}): give the job a directory of its own"
        )
