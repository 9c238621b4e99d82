"""Answers of Kafka that say nothing, and look as if they said something."""

from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from conversations.kafka.failures import passing
from conversations.kafka.offsets import answered


@pytest.mark.parametrize("nothing", [-1001, -1])
def test_an_answer_without_an_offset_is_no_offset(nothing: int) -> None:
    """Given without an error for a partition whose leader changes just then."""
    with pytest.raises(KafkaException) as refused:
        answered(answer(nothing))
    error: KafkaError = refused.value.args[0]
    assert passing(error), "it is asked for again"
    assert answered(answer(0)) == 0


def answer(offset: int) -> "Future[SimpleNamespace]":
    future: Future[SimpleNamespace] = Future()
    future.set_result(SimpleNamespace(offset=offset))
    return future
