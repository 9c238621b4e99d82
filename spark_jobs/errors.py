"""What can go wrong before, in or around a job, said so that it can be mended."""

from __future__ import annotations

from conversations.errors import DeclarationError, KafkaUnreachable, LogError
from conversations.kafka.embedded import BrokerError


class SparkJobError(Exception):
    """A job cannot be carried out as asked; the message says what to do."""


class SparkUnavailable(SparkJobError):
    """Spark cannot run here: no PySpark, no Java that is new enough, or another session than jobs need."""


class SourceError(SparkJobError):
    """What is to be read is not there: the topic, the service, or records that Kafka has dropped."""


class CheckpointError(SparkJobError):
    """A checkpoint or an archive belongs to something else."""


_DROPPED = (
    "Kafka has dropped records that were to be read: read from a later --since, or go on behind them with "
    "--option failOnDataLoss=false and note that there is a hole"
)
_SIGNS: tuple[tuple[str, type[SparkJobError | LogError], str], ...] = (
    (
        "UnknownTopicOrPartitionException",
        SourceError,
        "a topic that is to be read is not there, or was deleted meanwhile",
    ),
    ("OffsetOutOfRangeException", SourceError, _DROPPED),
    ("KAFKA_DATA_LOSS", SourceError, _DROPPED),
    ("failOnDataLoss", SourceError, _DROPPED),
    ("TimeoutException: Timed out waiting for a node assignment", KafkaUnreachable, "Kafka does not answer"),
)
"""What a Java exception says, what it is to a job, and what is said of it."""


def explained(error: Exception) -> Exception | None:
    """Return what is known of an error as one of ours, None when nothing is."""
    if isinstance(error, SparkJobError | DeclarationError | LogError | BrokerError):
        return error
    text = str(error)
    for sign, kind, message in _SIGNS:
        if sign in text:
            known = kind(message)
            known.__cause__ = error
            return known
    return None
