"""What can go wrong before or around a job, said so that it can be mended."""

from __future__ import annotations


class SparkJobError(Exception):
    """A job cannot be carried out as asked; the message says what to do."""


class SparkUnavailable(SparkJobError):
    """Spark cannot run here: no PySpark, no Java that is new enough, or another session than jobs need."""


class SourceError(SparkJobError):
    """What is to be read is not there: the topic, the service, or records that Kafka has dropped."""


class CheckpointError(SparkJobError):
    """A checkpoint or an archive belongs to something else."""
