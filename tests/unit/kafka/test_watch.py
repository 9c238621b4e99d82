from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection

from conversations.config import Kafka
from conversations.errors import InputLost
from conversations.kafka.clients import Admin, Topic
from conversations.kafka.logins import refused_login
from conversations.kafka.watch import Watch, differences
from tests.simulation.test_bounds import counted

BEFORE = {"conv.orders.queue": Topic("id1", 4), "conv.orders.state": Topic("id2", 4)}


def test_the_same_topics_are_no_news() -> None:
    assert differences(BEFORE, dict(BEFORE), [0, 1]) == []


def test_a_grown_topic_stops_the_worker_and_says_so() -> None:
    (error,) = differences(BEFORE, {**BEFORE, "conv.orders.queue": Topic("id1", 8)}, [0, 1])
    assert not isinstance(error, InputLost)
    assert "conv.orders.queue had 4 partitions and now has 8" in str(error)


def test_a_recreated_or_deleted_topic_loses_every_open_input() -> None:
    for now in (Topic("other", 4), None):
        errors = differences(BEFORE, {**BEFORE, "conv.orders.queue": now}, [1, 0])
        assert [error.partition for error in errors if isinstance(error, InputLost)] == [0, 1]


class Failing:
    """The client's part in a look: it answers at once, with an error."""

    def __init__(self, codes: list[int]) -> None:
        self._codes = codes

    def describe_topics(self, _: TopicCollection, request_timeout: float) -> Mapping[str, Future[Any]]:
        assert request_timeout > 0
        answer: Future[Any] = Future()
        answer.set_exception(KafkaException(KafkaError(self._codes.pop(0))))
        return dict.fromkeys(BEFORE, answer)


class FailingAdmin(Admin):
    """Lends clients that fail, each with the next of these errors."""

    def __init__(self, kafka: Kafka, *codes: int) -> None:
        self.codes = [*codes]
        super().__init__(kafka)
        self.renew()

    def renew(self) -> None:
        self.client: Any = Failing(self.codes)


LOGIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "PLAIN", "sasl.username": "u", "sasl.password": "p"}


def watch(*codes: int) -> Watch:
    kafka = Kafka("127.0.0.1:1", settings=LOGIN)
    return Watch(kafka, FailingAdmin(kafka, *codes), BEFORE, 30.0)


def look(watching: Watch) -> None:
    assert watching.look([]) is None
    assert watching.look([]) == []


def test_a_refusal_is_an_answer() -> None:
    """Whoever took the right to describe a topic away after an outage has not taken Kafka away."""
    watching = watch(KafkaError._TIMED_OUT, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    look(watching)
    assert watching.unanswered is not None
    look(watching)
    assert watching.unanswered is None


@pytest.mark.parametrize("code", [KafkaError._TIMED_OUT, KafkaError._TRANSPORT])
def test_a_look_that_nobody_answers_asks_nothing_else(code: int) -> None:
    """Whether the login is refused takes seconds to find out, and the thread that polls looks."""
    watching = watch(code)
    with counted(refused_login) as asked:
        look(watching)
    assert asked[0] == 0
    assert watching.unanswered is not None
