"""Asking again until a deadline: what is made again, what is raised, and what a failure leaves behind."""

import contextlib
import gc
from weakref import ref

import pytest
from confluent_kafka import KafkaError, KafkaException

from conversations.kafka.bounded_calls import BoundedCalls
from conversations.kafka.retrying import looked_for, patiently
from tests.support.waiting import until


class Failing:
    """A client whose calls fail: some times, or always."""

    def __init__(self, code: int, times: int | None = None) -> None:
        self.calls, self._code, self._times = 0, code, times

    def ask(self) -> int:
        self.calls += 1
        if self._times is None or self.calls <= self._times:
            raise KafkaException(KafkaError(self._code, "not now", retriable=True))
        return self.calls


def passes(error: KafkaError) -> bool:
    return error.code() == KafkaError.COORDINATOR_LOAD_IN_PROGRESS


def test_what_passes_is_asked_again_until_it_is_answered() -> None:
    assert patiently(Failing(KafkaError.COORDINATOR_LOAD_IN_PROGRESS, 3).ask, 5.0, again=passes) == 4


def test_what_does_not_pass_is_raised_at_once() -> None:
    client = Failing(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaException):
        patiently(client.ask, 5.0, again=passes)
    assert client.calls == 1


def test_at_the_deadline_the_failure_itself_is_raised() -> None:
    client = Failing(KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
    with pytest.raises(KafkaException, match="not now"):
        patiently(client.ask, 0.05, again=passes, pause=0.01)
    assert client.calls > 1


@pytest.mark.parametrize("is_bounded", [False, True])
def test_a_client_that_failed_is_freed_without_the_garbage_collector(is_bounded: bool) -> None:
    left: list[ref[Failing]] = []
    calls = BoundedCalls("test")

    def fail() -> None:
        client = Failing(KafkaError.TOPIC_AUTHORIZATION_FAILED)
        left.append(ref(client))
        patiently((lambda: calls.run(client.ask, 5.0)) if is_bounded else client.ask, 1.0)

    gc.disable()
    try:
        with contextlib.suppress(KafkaException):
            fail()
        until(lambda: left[0]() is None)  # the thread of the bounded call lets it go after its answer
    finally:
        gc.enable()
        calls.close()


def test_what_is_not_there_at_the_deadline_is_returned_as_it_was_last() -> None:
    looks = iter(range(1000))
    assert looked_for(lambda: next(looks), lambda found: found == 3, 5.0, pause=0.001) == 3
    assert looked_for(lambda: "never", lambda _: False, 0.02, pause=0.005) == "never"
