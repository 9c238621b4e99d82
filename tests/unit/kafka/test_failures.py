import pytest
from confluent_kafka import KafkaError, KafkaException

from conversations.config import Kafka
from conversations.errors import KafkaNotReady, KafkaUnreachable, LogError
from conversations.kafka.clients import translated
from conversations.kafka.failures import Word, ignorable, input_gone, is_producer_fenced, refuses, unreachable, word_for

DESTROY_BROKER = -137
"""A broker that is asked leaves the cluster's list; a running worker met it while it restored."""


def error(code: int, *, fatal: bool = False, retriable: bool = False, abort: bool = False) -> KafkaError:
    return KafkaError(code, "why", fatal, retriable, abort)


@pytest.mark.parametrize(
    ("given", "word"),
    [
        (error(KafkaError.UNKNOWN_MEMBER_ID, abort=True), Word.FENCED),
        (error(KafkaError.ILLEGAL_GENERATION, abort=True), Word.FENCED),
        (error(KafkaError.STALE_MEMBER_EPOCH, abort=True), Word.FENCED),
        (error(KafkaError.FENCED_MEMBER_EPOCH, abort=True), Word.FENCED),
        (error(KafkaError.REBALANCE_IN_PROGRESS, abort=True), Word.FENCED),
        (error(KafkaError.TOPIC_AUTHORIZATION_FAILED, abort=True), Word.DESTINATION),
        (error(KafkaError.MSG_SIZE_TOO_LARGE, abort=True), Word.RECORD),
        (error(KafkaError.INVALID_RECORD, abort=True), Word.RECORD),
        (error(KafkaError.INVALID_TIMESTAMP, abort=True), Word.DESTINATION),
        (error(KafkaError._UNKNOWN_PARTITION), Word.DESTINATION),
        (error(KafkaError._UNKNOWN_TOPIC), Word.DESTINATION),
        (error(KafkaError._TIMED_OUT, retriable=True), Word.RETRIABLE),
        (error(KafkaError._TIMED_OUT), Word.RETRIABLE),
        (error(KafkaError._TIMED_OUT, abort=True), Word.ABORTABLE),
        (error(KafkaError._INCONSISTENT, abort=True), Word.ABORTABLE),
        (error(KafkaError.INVALID_PRODUCER_EPOCH, abort=True), Word.ABORTABLE),
        (error(KafkaError.COORDINATOR_LOAD_IN_PROGRESS, retriable=True), Word.RETRIABLE),
        (error(KafkaError.UNKNOWN_LEADER_EPOCH), Word.RETRIABLE),
        (error(KafkaError.NOT_LEADER_FOR_PARTITION), Word.RETRIABLE),
        (error(KafkaError._FENCED, fatal=True), Word.IN_DOUBT),
        (error(KafkaError.INVALID_TXN_STATE, fatal=True), Word.IN_DOUBT),
        (error(KafkaError._STATE), Word.IN_DOUBT),
        (error(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, fatal=True), Word.FATAL),
        (error(KafkaError.GROUP_AUTHORIZATION_FAILED, abort=True), Word.FATAL),
    ],
    ids=lambda value: f"{value.name()}" if isinstance(value, KafkaError) else value.value,
)
def test_an_error_of_a_transaction_has_one_meaning(given: KafkaError, word: Word) -> None:
    assert word_for(given) is word


def test_a_lost_partition_is_told_from_a_lost_producer() -> None:
    assert is_producer_fenced(error(KafkaError._FENCED, fatal=True))
    assert not is_producer_fenced(error(KafkaError.UNKNOWN_MEMBER_ID, abort=True))


def test_a_timed_out_record_is_no_verdict_on_its_topic() -> None:
    assert refuses(error(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    assert not refuses(error(KafkaError.MSG_SIZE_TOO_LARGE))
    assert not refuses(error(KafkaError._MSG_TIMED_OUT))
    assert not refuses(error(KafkaError._PURGE_QUEUE))


def test_an_offset_out_of_range_is_a_lost_input_and_a_leader_election_is_not() -> None:
    assert input_gone(error(KafkaError._AUTO_OFFSET_RESET))
    assert not input_gone(error(KafkaError.NOT_LEADER_FOR_PARTITION))
    assert ignorable(error(KafkaError.NOT_LEADER_FOR_PARTITION))
    assert ignorable(error(KafkaError._MAX_POLL_EXCEEDED))
    assert not ignorable(error(KafkaError._AUTO_OFFSET_RESET))
    assert not ignorable(error(KafkaError.GROUP_AUTHORIZATION_FAILED))


def test_only_a_silent_broker_is_unreachable() -> None:
    assert unreachable(error(KafkaError._TRANSPORT))
    assert not unreachable(error(KafkaError.UNKNOWN_TOPIC_OR_PART))


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (error(KafkaError.CONCURRENT_TRANSACTIONS), KafkaNotReady),
        (error(KafkaError.COORDINATOR_NOT_AVAILABLE), KafkaNotReady),
        (error(KafkaError.OFFSET_NOT_AVAILABLE), KafkaNotReady),
        (error(KafkaError._NOENT), KafkaNotReady),
        (error(KafkaError._TRANSPORT), KafkaUnreachable),
        (error(KafkaError._TIMED_OUT), KafkaUnreachable),
        (error(DESTROY_BROKER), KafkaUnreachable),
        (error(KafkaError.TOPIC_AUTHORIZATION_FAILED), LogError),
        (error(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED), LogError),
    ],
    ids=lambda value: str(value.code()) if isinstance(value, KafkaError) else value.__name__,
)
def test_a_cluster_that_answers_is_told_from_one_that_is_away(given: KafkaError, kind: type[LogError]) -> None:
    told = translated(Kafka("k:1"), "it cannot be done", KafkaException(given))
    assert type(told) is kind
    assert ("cannot be reached" in str(told)) is (kind is KafkaUnreachable)
