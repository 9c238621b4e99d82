"""Answers of Kafka that say nothing, and look as if they said something."""

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from conversations.kafka.failures import passing
from conversations.kafka.offsets import known


@pytest.mark.parametrize("nothing", [-1001, -1])
def test_an_answer_without_an_offset_is_no_offset(nothing: int) -> None:
    """Given without an error for a partition whose leader changes just then."""
    with pytest.raises(KafkaException) as refused:
        known([TopicPartition("flights.queue", 3, nothing)])
    error: KafkaError = refused.value.args[0]
    assert passing(error), "it is asked for again"
    assert known([TopicPartition("flights.queue", 3, 0)]) == {("flights.queue", 3): 0}
