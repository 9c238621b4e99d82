"""Which failures of a question to Kafka are asked again."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from conversations.kafka.retrying import is_unsure, patiently


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError._NOENT,
    ],
)
def test_a_leader_that_is_changing_or_was_just_made_is_asked_again(code: int) -> None:
    answers = [KafkaException(KafkaError(code)), KafkaException(KafkaError(code)), None]

    def ask() -> str:
        failure = answers.pop(0)
        if failure is not None:
            raise failure
        return "an answer"

    assert patiently(ask, 5.0, again=is_unsure) == "an answer"


@pytest.mark.parametrize(
    "code",
    [KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN, KafkaError.TOPIC_AUTHORIZATION_FAILED],
)
def test_a_broker_that_is_out_of_reach_and_a_refusal_are_told_at_once(code: int) -> None:
    assert not is_unsure(KafkaError(code))
