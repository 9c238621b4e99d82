"""The meaning of each Kafka error for a transaction, decided in this place alone."""

from __future__ import annotations

from enum import Enum
from typing import Final

from confluent_kafka import KafkaError


class Word(Enum):
    """What to do about an error; see docs of the commit in ``transactions``."""

    FENCED = "fenced"
    """Another member owns a partition: abort, poll to learn which, commit the rest."""
    RETRIABLE = "retriable"
    """Nothing was decided: call the same method again."""
    ABORTABLE = "abortable"
    """The transaction cannot commit any more: abort it, then it may be tried again."""
    DESTINATION = "destination"
    """One topic refuses records: abort, commit without them."""
    RECORD = "record"
    """A topic refuses one record, or the batch it was in: abort, find out which, commit without it."""
    IN_DOUBT = "in doubt"
    """The producer is finished: throw memory away and start again with another one."""
    FATAL = "fatal"
    """Settings or rights are wrong: trying again cannot help."""


_FENCED: Final = frozenset(
    {
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.FENCED_MEMBER_EPOCH,
        KafkaError.FENCED_INSTANCE_ID,
        # A classic group is dealing out its partitions: poll to take part, then commit what is left to us.
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError._ASSIGNMENT_LOST,  # noqa: SLF001 - librdkafka's own error codes begin with an underscore
    }
)

_PRODUCER_FENCED: Final = frozenset(
    {
        KafkaError._FENCED,  # noqa: SLF001
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.TRANSACTION_COORDINATOR_FENCED,
    }
)

_FATAL: Final = frozenset(
    {
        KafkaError._AUTHENTICATION,  # noqa: SLF001
        KafkaError._INVALID_ARG,  # noqa: SLF001
        KafkaError._NOT_CONFIGURED,  # noqa: SLF001
        KafkaError._UNSUPPORTED_FEATURE,  # noqa: SLF001
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.INVALID_TRANSACTION_TIMEOUT,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.UNSUPPORTED_VERSION,
    }
)

_DESTINATION: Final = frozenset(
    {
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
        KafkaError.INVALID_TIMESTAMP,  # the clock that dated the records is off: none of them would be taken
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_EXCEPTION,  # an illegal topic name
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
)

_TOO_LARGE: Final = frozenset(
    {KafkaError.INVALID_MSG_SIZE, KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE}
)

_RECORD: Final = _TOO_LARGE | {KafkaError.INVALID_RECORD, KafkaError.POLICY_VIOLATION}

_CONSEQUENCES: Final = frozenset(
    {
        KafkaError._PURGE_QUEUE,  # noqa: SLF001
        KafkaError._PURGE_INFLIGHT,  # noqa: SLF001
        KafkaError._MSG_TIMED_OUT,  # noqa: SLF001
        KafkaError._TIMED_OUT,  # noqa: SLF001
    }
)

_RETRIABLE: Final = frozenset(
    {
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._TIMED_OUT_QUEUE,  # noqa: SLF001
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        KafkaError._WAIT_COORD,  # noqa: SLF001
        KafkaError._QUEUE_FULL,  # noqa: SLF001
        KafkaError._CONFLICT,  # noqa: SLF001 - the previous call to the same method is still at work
        KafkaError._RETRY,  # noqa: SLF001
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        # A leader that has just started, or just stopped being one: a broker that restarts says these for a moment.
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
    }
)

_INPUT_GONE: Final = frozenset(
    {
        KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001 - what auto.offset.reset=error reports
        # Damaged, or zstd that unpacks to more than receive.message.max.bytes: with a larger one it can be read.
        KafkaError._BAD_COMPRESSION,  # noqa: SLF001
        KafkaError._BAD_MSG,  # noqa: SLF001
        KafkaError._LOG_TRUNCATION,  # noqa: SLF001
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
        KafkaError.INCONSISTENT_TOPIC_ID,
        KafkaError.OFFSET_OUT_OF_RANGE,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
)

_DESTROY_BROKER: Final = -137
"""The broker asked is gone from the cluster's list: ``_DESTROY_BROKER``, which the client's types do not know."""

_UNREACHABLE: Final = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        KafkaError._RESOLVE,  # noqa: SLF001
        KafkaError._SSL,  # noqa: SLF001
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._AUTHENTICATION,  # noqa: SLF001
        _DESTROY_BROKER,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.REQUEST_TIMED_OUT,
        # A broker answered, but the one to ask is not there (yet), as happens while brokers start.
        KafkaError._NOENT,  # noqa: SLF001 - the leader of the partition is not known
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_CONTROLLER,
        KafkaError.NOT_LEADER_FOR_PARTITION,
    }
)


def word_for(error: KafkaError) -> Word:
    """Decide what an error of a transactional call means.

    The order matters: a fenced producer stays fenced whatever flags the error carries, a lost partition is more
    precise than "must be aborted", and only then do librdkafka's three flags speak.
    """
    code = error.code()
    if code in _FATAL:
        return Word.FATAL
    if error.fatal():
        return Word.IN_DOUBT
    if code in _FENCED:
        return Word.FENCED
    if code in _RECORD:
        return Word.RECORD
    if error.txn_requires_abort():
        return Word.DESTINATION if code in _DESTINATION else Word.ABORTABLE
    if error.retriable() or code in _RETRIABLE:
        return Word.RETRIABLE
    if code in _PRODUCER_FENCED:
        return Word.IN_DOUBT
    if code in _DESTINATION:
        return Word.DESTINATION
    # None of librdkafka's flags: its documentation says to treat it as the end of this producer.
    return Word.IN_DOUBT


def passing(error: KafkaError) -> bool:
    """Tell whether an administrative request may be answered when it is asked again."""
    word = word_for(error)
    # _NOENT: the leader of the partition is not known, just now.
    moment = word is Word.RETRIABLE or error.code() == KafkaError._NOENT  # noqa: SLF001
    return moment or (word is not Word.FATAL and unreachable(error))


def is_producer_fenced(error: KafkaError) -> bool:
    """Tell whether another producer took over the transactional id."""
    return error.code() in _PRODUCER_FENCED


def refuses(error: KafkaError) -> bool:
    """Tell whether a delivery report says that the topic will not take this record, ever or until an operator acts."""
    return error.code() in _DESTINATION


def too_large(error: KafkaError) -> bool:
    """Tell whether a record, or the batch it was in, has more bytes than its topic takes."""
    return error.code() in _TOO_LARGE


def consequence(error: KafkaError) -> bool:
    """Tell whether a delivery report only says that something else went wrong before."""
    return error.code() in _CONSEQUENCES


def producer_forbidden(error: KafkaError) -> bool:
    """Tell whether a right to write a topic is missing: who may write none gets no producer id, a right of the cluster."""
    return error.code() in {KafkaError.CLUSTER_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED}


def forbidden(error: KafkaError) -> bool:
    """Tell whether a right on a topic is missing."""
    return error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def timed_out(error: KafkaError) -> bool:
    """Tell whether a delivery report says that a record could not be handed over in time."""
    return error.code() in {KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT}  # noqa: SLF001


def input_gone(error: KafkaError) -> bool:
    """Tell whether an error of a fetched partition means that it cannot be read on from where it stopped."""
    return error.code() in _INPUT_GONE


def out_of_range(error: KafkaError) -> bool:
    """Tell whether a broker that was asked to read at an offset says that its log does not have it."""
    return error.code() in {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}  # noqa: SLF001


def ignorable(error: KafkaError) -> bool:
    """Tell whether librdkafka mends an error from ``poll`` by itself (reconnect, rejoin) and only wants it known."""
    if error.fatal() or error.code() in _FATAL:
        return False
    passing = {
        KafkaError._MAX_POLL_EXCEEDED,  # noqa: SLF001 - the loss of the partitions is told by its own callback
        KafkaError._PARTITION_EOF,  # noqa: SLF001
        KafkaError._RESOLVE,  # noqa: SLF001
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.FENCED_MEMBER_EPOCH,
        KafkaError.REBALANCE_IN_PROGRESS,
    }
    return error.retriable() or error.code() in passing or error.code() in _RETRIABLE


def harmless_to_readers(error: KafkaError) -> bool:
    """Tell the same for a reader that is in no group: librdkafka looks for the coordinator of the one it must name."""
    return ignorable(error) or error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED


def unreachable(error: KafkaError) -> bool:
    """Tell whether an error means that no broker answered, or not the one to ask: it may pass."""
    return error.code() in _UNREACHABLE


def not_ready(error: KafkaError) -> bool:
    """Tell whether a broker has answered that the cluster cannot do it just now: its address is right, and it will pass."""
    return passing(error) and (error.code() > 0 or error.code() == KafkaError._NOENT)  # noqa: SLF001


def describe(error: KafkaError) -> str:
    """Say in one line what went wrong, with Kafka's name for it."""
    return f"{error.str()} ({error.name()})"
