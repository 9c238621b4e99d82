"""The offsets that a worker's consumers keep of their inputs. The consumer is Kafka's, without a broker: it has no position yet."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from conversations.kafka.input_offsets import InputOffsets

QUEUE, COMMANDS = ("orders.queue", 0), ("orders.commands", 0)


@pytest.fixture
def consumer() -> Iterator[Consumer]:
    made = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "orders", "log_level": 0})
    made.assign([TopicPartition(*QUEUE), TopicPartition(*COMMANDS)])
    yield made
    made.close()


def test_a_position_is_behind_the_start_and_behind_the_markers_at_the_end(consumer: Consumer) -> None:
    offsets = InputOffsets()
    offsets.begin(QUEUE, 7)
    offsets.begin(COMMANDS, None)
    assert offsets.positions(consumer) == {QUEUE: 7, COMMANDS: 0}
    offsets.reach_end(QUEUE, 12)
    assert (offsets.end(QUEUE), offsets.end(COMMANDS)) == (12, 0)
    assert offsets.positions(consumer) == {QUEUE: 12, COMMANDS: 0}


def test_a_paused_input_has_no_position(consumer: Consumer) -> None:
    offsets = InputOffsets()
    offsets.begin(QUEUE, 7)
    offsets.begin(COMMANDS, 3)
    offsets.pause(QUEUE)
    assert offsets.is_paused(QUEUE)
    assert offsets.positions(consumer) == {COMMANDS: 3}
    offsets.resume(QUEUE)
    assert offsets.positions(consumer) == {QUEUE: 7, COMMANDS: 3}


def test_an_input_that_begins_anew_has_no_end_and_is_not_paused() -> None:
    offsets = InputOffsets()
    offsets.begin(QUEUE, 7)
    offsets.reach_end(QUEUE, 12)
    offsets.pause(QUEUE)
    offsets.begin(QUEUE, 9)
    assert (offsets.end(QUEUE), offsets.is_paused(QUEUE)) == (0, False)


def test_an_input_that_is_not_read_keeps_nothing(consumer: Consumer) -> None:
    offsets = InputOffsets()
    offsets.begin(QUEUE, 7)
    offsets.forget(QUEUE)
    offsets.reach_end(QUEUE, 12)  # the event was on its way
    assert QUEUE not in offsets
    assert offsets.end(QUEUE) == 0
    assert offsets.positions(consumer) == {}
