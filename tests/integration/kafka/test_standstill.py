"""Kafka has records that do not arrive: a worker leaves the connection, and takes what is to be waited for as such."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future

import pytest
from confluent_kafka import Producer, TopicPartition

from conversations.config import Kafka
from conversations.kafka import standstill
from conversations.kafka.connection import KafkaConnection
from conversations.kafka.offsets import Offsets, Place, ask_decided
from conversations.ports import Positions
from conversations.protocol.topics import QUEUE
from conversations.worker import Worker
from tests.integration.kafka.members import PARTITIONS, Member, fill, topic
from tests.rules.support.stepped_service import Asking, SteppedService, until

pytestmark = pytest.mark.kafka

LOOKS = 4


@pytest.fixture
def stepped(kafka_bootstrap: str) -> Iterator[SteppedService]:
    made = SteppedService(kafka_bootstrap)
    yield made
    made.close()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Topics whose end was asked for, look by look; a look follows the last one soon."""
    topics: list[str] = []
    real = ask_decided

    def noted(kafka: Kafka, places: Sequence[Place]) -> Future[Offsets]:
        topics.extend(name for name, _ in places)
        return real(kafka, places)

    monkeypatch.setattr(standstill, "ask_decided", noted)
    monkeypatch.setattr(standstill, "LOOKED_AT", 0.2)
    return topics


def log_of(worker: Worker) -> KafkaConnection:
    assert isinstance(worker.context.connection, KafkaConnection)
    return worker.context.connection


def test_a_worker_that_gets_nothing_makes_another_connection_and_goes_on(
    stepped: SteppedService, asked: list[str]
) -> None:
    """As one does whose consumer is connected to nobody but a leader that is cut off; here it is held back without its knowledge."""
    worker, asking = stepped.worker(), Asking(stepped)
    asking.ask(1)
    stepped.answered(stepped.open(worker), 1)
    inputs = log_of(worker)._inputs
    assert inputs is not None
    inputs._consumer.pause([TopicPartition(stepped.topic(QUEUE), 0)])
    asking.ask(2, 3)
    stepped.answered(worker, 1, 2, 3)
    assert log_of(worker)._inputs is not inputs
    assert stepped.topic(QUEUE) in asked


def test_an_open_transaction_and_silence_are_waited_for(stepped: SteppedService, asked: list[str]) -> None:
    worker, asking = stepped.open(stepped.worker()), Asking(stepped)
    inputs = log_of(worker)._inputs
    producer = Producer({"bootstrap.servers": stepped.kafka.bootstrap, "transactional.id": stepped.kafka.namespace})
    producer.init_transactions(20)
    producer.begin_transaction()
    key, value, headers = asking.record(1)
    producer.produce(stepped.topic(QUEUE), value, key, 0, headers=headers)
    assert producer.flush(20) == 0
    until(lambda: (worker.step(0.05), asked.count(stepped.topic(QUEUE)) >= LOOKS)[1])
    producer.commit_transaction(20)
    stepped.answered(worker, 1)
    asked.clear()
    until(lambda: (worker.step(0.05), asked.count(stepped.topic(QUEUE)) >= LOOKS)[1])
    assert log_of(worker)._inputs is inputs


def test_an_input_that_is_held_back_does_not_stand_still(member: Member, asked: list[str]) -> None:
    kafka, connection = member.kafka, member.connection
    for partition in range(PARTITIONS):
        connection.open(partition, Positions(None, None))
    connection.pause(0)
    fill(kafka, topic(kafka, "queue"), [b"1"])
    until(lambda: (connection.poll(0.05, 10), asked.count(topic(kafka, "commands")) >= LOOKS * PARTITIONS)[1])
    assert asked.count(topic(kafka, "queue")) < asked.count(topic(kafka, "commands"))
    connection.resume(0)
    until(lambda: [it.value() for it in connection.poll(0.05, 10)] == [b"1"])
