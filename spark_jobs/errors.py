"""What can go wrong before, in or around a job, said so that it can be mended."""

from __future__ import annotations

from conversations.errors import DeclarationError, KafkaUnreachable, LogError
from conversations_ops.broker import BrokerError


class SparkJobError(Exception):
    """A job cannot be carried out as asked; the message says what to do."""


class SparkUnavailable(SparkJobError):
    """Spark cannot run here: no PySpark, no Java that is new enough, or another session than jobs need."""


class SourceError(SparkJobError):
    """What is to be read is not there: the topic, the service, or records that Kafka has dropped."""


class RecordsDropped(SourceError):
    """Kafka has dropped records that were to be read, by retention or by hand."""


class CheckpointError(SparkJobError):
    """A checkpoint or an archive belongs to something else."""


_DROPPED = (
    "Kafka has dropped records that were to be read: read from a later --since, or go on behind them with "
    "--option failOnDataLoss=false and note that there is a hole"
)
_SIGNS = (
    ("UnknownTopicOrPartitionException", "a topic that is to be read is not there, or was deleted meanwhile"),
    ("OffsetOutOfRangeException", _DROPPED),
    ("KAFKA_DATA_LOSS", _DROPPED),
    ("failOnDataLoss", _DROPPED),
    (
        "MALFORMED_RECORD_IN_PARSING",
        "a line of JSON has something else than it may: dialog, type (strings), number, body, end (true or false), at (a time)",
    ),
)
"""What a Java exception says, and what that is to a job."""
_SILENT = "TimeoutException: Timed out waiting for a node assignment"


def explained(error: Exception) -> Exception | None:
    """Return what is known of an error as one of ours, None when nothing is."""
    if isinstance(error, SparkJobError | DeclarationError | LogError | BrokerError):
        return error
    text = str(error)
    found = next((message for sign, message in _SIGNS if sign in text), None)
    if found is None and _SILENT not in text:
        return None
    known: Exception
    if found is None:
        known = KafkaUnreachable("the address given", "no answer")
    else:
        known = RecordsDropped(found) if found == _DROPPED else SourceError(found)
    known.__cause__ = error
    return known
