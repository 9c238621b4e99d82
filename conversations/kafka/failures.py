"""Decides what each Kafka error means for transactions and requests. No other module decides this."""

from __future__ import annotations

from enum import Enum
from typing import Final

from confluent_kafka import KafkaError, KafkaException


class Word(Enum):
    """The reaction to an error of a transaction. The module ``transactions`` carries out the reaction."""

    FENCED = "fenced"
    """Another member owns a partition: abort, poll to learn which partition, commit the rest."""
    RETRIABLE = "retriable"
    """Nothing was decided: call the same method again."""
    ABORTABLE = "abortable"
    """The transaction cannot commit any more: abort it. Then a new transaction may do the same work."""
    DESTINATION = "destination"
    """One topic refuses records: abort, then commit without its records."""
    RECORD = "record"
    """A topic refuses one record, or the batch that has the record: abort, find the record, then commit without it."""
    IN_DOUBT = "in doubt"
    """The producer is unusable: forget everything in memory, and start again with a new producer."""
    FATAL = "fatal"
    """Settings or rights are wrong, so a further attempt cannot help."""


_FENCED: Final = frozenset(
    {
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.FENCED_MEMBER_EPOCH,
        KafkaError.FENCED_INSTANCE_ID,
        # A classic group is rebalancing: poll to take part, then commit for the partitions that remain.
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
        KafkaError.INVALID_TIMESTAMP,  # the clock that dated the records is wrong, so the topic refuses all of them
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
        # The leader has just started, or has just lost its role. A broker that restarts gives these answers for a moment.
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
        KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001 - the error that auto.offset.reset=error reports
        # The batch is damaged, or after decompression with zstd it is larger than receive.message.max.bytes. In the second case,
        # a larger value of this setting makes the batch readable.
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
"""librdkafka's ``_DESTROY_BROKER``: the broker that was asked is no longer in the cluster. The client's types do not have this code."""

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
        # A broker answered, but the broker for the request is not available, for example while brokers start.
        KafkaError._NOENT,  # noqa: SLF001 - the leader of the partition is not known
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_CONTROLLER,
        KafkaError.NOT_LEADER_FOR_PARTITION,
    }
)


def word_for(error: KafkaError) -> Word:
    """Decide what an error of a transactional call means.

    The order of the checks matters. Wrong settings or rights come first, then librdkafka's flag "fatal". The codes
    of a lost partition or a refused record tell more than the flags "requires abort" and "retriable". So the codes are checked before
    these flags.
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
    # The error has none of librdkafka's flags. According to librdkafka's documentation, such an error ends the producer.
    return Word.IN_DOUBT


def passing(error: KafkaError) -> bool:
    """Return True if an admin request that failed with this error may succeed when it is repeated."""
    word = word_for(error)
    # _NOENT: the leader of the partition is not known now.
    moment = word is Word.RETRIABLE or error.code() == KafkaError._NOENT  # noqa: SLF001
    return moment or (word is not Word.FATAL and unreachable(error))


def is_producer_fenced(error: KafkaError) -> bool:
    """Return True if another producer took over the transactional id."""
    return error.code() in _PRODUCER_FENCED


def ends_producer(error: KafkaError) -> bool:
    """Return True if a producer accepts no more records. A refused record has only the code of a fatal error, not its flag."""
    return error.fatal() or error.code() == KafkaError._FATAL  # noqa: SLF001


def refuses(error: KafkaError) -> bool:
    """Return True if a delivery report means that the topic refuses this record for ever, or until an operator acts."""
    return error.code() in _DESTINATION


def too_large(error: KafkaError) -> bool:
    """Return True if a record, or the batch that has the record, is larger than its topic accepts."""
    return error.code() in _TOO_LARGE


def consequence(error: KafkaError) -> bool:
    """Return True if the error of a delivery report is only the consequence of an earlier error."""
    return error.code() in _CONSEQUENCES


def producer_forbidden(error: KafkaError) -> bool:
    """Return True if the right to write to a topic is missing.

    A user without the right to write to any topic gets no producer id. Then Kafka reports that a right on the cluster is missing.
    """
    return error.code() in {KafkaError.CLUSTER_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED}


def forbidden(error: KafkaError) -> bool:
    """Return True if a right on a topic is missing."""
    return error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def too_late(error: KafkaError) -> bool:
    """Return True if a record cannot be produced because its transaction has failed already. The record is not the cause."""
    return error.code() == KafkaError._STATE  # noqa: SLF001


def is_open(error: KafkaError) -> bool:
    """Return True if a transaction cannot be begun only because one is open, and nothing is wrong with that one."""
    return error.code() == KafkaError._STATE and not error.txn_requires_abort() and not error.fatal()  # noqa: SLF001


def timed_out(error: KafkaError) -> bool:
    """Return True if a delivery report means that a record was not delivered in time."""
    return error.code() in {KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT}  # noqa: SLF001


def input_gone(error: KafkaError) -> bool:
    """Return True if an error means that an input partition cannot be read any further."""
    return error.code() in _INPUT_GONE


def out_of_range(error: KafkaError) -> bool:
    """Return True if a broker answered that its log does not have the requested offset."""
    return error.code() in {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}  # noqa: SLF001


def ignorable(error: KafkaError) -> bool:
    """Return True if an error needs no reaction, because librdkafka recovers by itself: it reconnects, or joins the group again."""
    if error.fatal() or error.code() in _FATAL:
        return False
    passing = {
        KafkaError._MAX_POLL_EXCEEDED,  # noqa: SLF001 - a callback reports the loss of the partitions
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
    """Return True if a reader that is in no group can ignore an error.

    librdkafka requires a group id even of a reader in no group, and looks for the coordinator of the group with this id. The
    right on this group may be missing.
    """
    return ignorable(error) or error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED


def unreachable(error: KafkaError) -> bool:
    """Return True if no broker answered, or if the brokers that answered cannot serve the request. Such an error may pass."""
    return error.code() in _UNREACHABLE


def not_ready(error: KafkaError) -> bool:
    """Return True if a broker answered that the cluster is not ready. The address is right, and the error will pass."""
    return passing(error) and (error.code() > 0 or error.code() == KafkaError._NOENT)  # noqa: SLF001


def error_in(failure: BaseException) -> KafkaError | None:
    """Return the error of Kafka's client in an exception; None if there is none.

    After a fatal error of a producer, each of its calls raises KafkaException, or SystemError caused by KafkaException.
    """
    found = failure if isinstance(failure, KafkaException) else failure.__cause__
    return found.args[0] if isinstance(found, KafkaException) else None


def describe(error: KafkaError) -> str:
    """Return a line that describes an error, with Kafka's name of the error."""
    return f"{error.str()} ({error.name()})"
