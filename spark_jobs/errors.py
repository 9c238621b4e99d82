"""Errors of jobs. Each message tells how to correct the error."""

from __future__ import annotations

from conversations.errors import DeclarationError, KafkaUnreachable, LogError
from conversations_ops.broker import BrokerError


class SparkJobError(Exception):
    """A job cannot run with these options or this input. The message tells what to do."""


class SparkUnavailable(SparkJobError):
    """Spark cannot run here: PySpark or a recent Java is missing, or the session cannot do what the job needs."""


class SourceError(SparkJobError):
    """A topic, a service or records are missing."""


class RecordsDropped(SourceError):
    """Kafka has dropped records before they were read, by retention or by hand."""


class CheckpointError(SparkJobError):
    """A checkpoint or an archive belongs to another job, or cannot be used."""


_DROPPED = (
    "Kafka has dropped records before they were read: read from a later --since, or continue after them with "
    "--option failOnDataLoss=false, which leaves a hole in the result"
)
_SIGNS = (
    ("UnknownTopicOrPartitionException", "a topic is missing, or was deleted meanwhile"),
    ("OffsetOutOfRangeException", _DROPPED),
    ("KAFKA_DATA_LOSS", _DROPPED),
    ("failOnDataLoss", _DROPPED),
    (
        "MALFORMED_RECORD_IN_PARSING",
        "a line is not JSON, or a field has a wrong type; the fields are dialog and type (strings), number, body, end (true or false) and at (a time)",
    ),
)
"""Words in a Java exception, and their meaning for a job."""
_SILENT = "TimeoutException: Timed out waiting for a node assignment"


def explained(error: Exception) -> Exception | None:
    """Return the error of this package that explains an error of Spark; None if the error is not known."""
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
