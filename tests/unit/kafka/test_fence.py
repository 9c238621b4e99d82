"""The offsets of a transaction: under way before its records, accepted before its commit, and never two calls at a time."""

from collections.abc import Iterator
from contextlib import closing
from threading import Event, Lock
from typing import cast

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from conversations.kafka import fence
from conversations.kafka.bounded_calls import Stuck
from conversations.kafka.fence import Fence, Group

RETRIABLE = KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS, "not now", retriable=True)
FENCED = KafkaError(KafkaError.UNKNOWN_MEMBER_ID, "not yours", txn_requires_abort=True)


class Sending:
    """A producer of which only the offsets matter. A call waits for ``go``, and fails with the next one of ``failures``."""

    def __init__(self, *failures: KafkaError) -> None:
        self.sent: list[tuple[dict[int, int], str]] = []
        self.go, self.entered = Event(), Event()
        self._failures, self._one = list(failures), Lock()

    def send_offsets_to_transaction(self, positions: list[TopicPartition], metadata: str, timeout: float) -> None:
        assert self._one.acquire(blocking=False), "two calls at a time"
        self.entered.set()
        try:
            assert self.go.wait(30)
            self.sent.append(({it.partition: it.offset for it in positions}, metadata))
            if self._failures:
                raise KafkaException(self._failures.pop(0))
        finally:
            self._one.release()

    @property
    def producer(self) -> Producer:
        return cast(Producer, self)


@pytest.fixture
def epochs() -> Iterator[str]:
    return (f"epoch {number}" for number in range(10))


@pytest.fixture
def fences(epochs: Iterator[str]) -> Iterator[Fence]:
    with closing(Fence(Group("group", "queue", "state", lambda: next(epochs)), "test")) as opened:
        yield opened


def test_offsets_are_under_way_while_the_caller_goes_on(fences: Fence) -> None:
    sending = Sending()
    fences.begin(sending.producer, {0: 7, 1: 9})
    assert sending.entered.wait(30)
    assert sending.sent == []
    sending.go.set()
    fences.end(sending.producer, {0: 7, 1: 9})
    assert sending.sent == [({0: 7, 1: 9}, "epoch 0")]


def test_offsets_that_are_refused_are_told_at_the_end(fences: Fence) -> None:
    sending = Sending(FENCED)
    sending.go.set()
    fences.begin(sending.producer, {0: 7})
    with pytest.raises(KafkaException, match="not yours"):
        fences.end(sending.producer, {0: 7})
    assert len(sending.sent) == 1


def test_offsets_that_failed_for_a_moment_are_sent_again_with_the_present_epoch(fences: Fence) -> None:
    sending = Sending(RETRIABLE, RETRIABLE)
    sending.go.set()
    fences.begin(sending.producer, {0: 7})
    fences.end(sending.producer, {0: 7})
    assert sending.sent == [({0: 7}, f"epoch {number}") for number in range(3)]


def test_one_call_ends_before_the_next_begins(fences: Fence) -> None:
    sending = Sending(FENCED)
    fences.begin(sending.producer, {0: 7})
    assert sending.entered.wait(30)
    sending.go.set()
    fences.send(sending.producer, {0: 8})
    fences.settle()
    assert [offsets for offsets, _ in sending.sent] == [{0: 7}, {0: 8}]


def test_a_closed_fence_makes_nobody_wait_for_ever(fences: Fence, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fence, "STUCK_AFTER", 0.05)
    fences.close()
    with pytest.raises(Stuck):
        fences.begin(Sending().producer, {0: 7})
    fences.settle()


def test_a_silent_coordinator_is_given_up(fences: Fence, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fence, "STUCK_AFTER", 0.05)
    sending = Sending()
    fences.begin(sending.producer, {0: 7})
    with pytest.raises(Stuck):
        fences.settle()
    sending.go.set()
