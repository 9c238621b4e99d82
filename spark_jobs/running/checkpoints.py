"""Whose a checkpoint is, as a file in it says: no job goes on with the checkpoint of another."""

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
    """Take a new checkpoint for a job, or see that it is the job's; ``directory`` is on any file system of Spark's.

    Raises:
        CheckpointError: it is another job's, it does not say whose, or it cannot be written to.
    """
    checkpoint = Directory(spark, directory, listed=False)
    if checkpoint.exists(IDENTITY):
        _compare(directory, json.loads(checkpoint.read(IDENTITY)), what)
    elif checkpoint.exists("offsets"):
        raise CheckpointError(f"{directory} is the checkpoint of something else: give the job a directory of its own")
    elif not checkpoint.write(IDENTITY, json.dumps(what)):
        raise CheckpointError(f"{directory}/{IDENTITY} could not be written: run it again")


def _compare(directory: str, found: Mapping[str, str], what: Mapping[str, str]) -> None:
    other = [f"{name} {found.get(name)!r}, not {value!r}" for name, value in what.items() if found.get(name) != value]
    if other:
        raise CheckpointError(
            f"{directory} is the checkpoint of another job ({'; '.join(other)}): give the job a directory of its own"
        )
