"""A worker whose broker goes away and comes back: it waits, and goes on where it was."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

import pytest
from confluent_kafka import Producer
from pydantic import BaseModel

from conversations import Client, Contract, Dialog, Kafka, Service, WorkerSettings
from conversations.config import Periods
from conversations.crew import Crew
from conversations.durations import HOUR, SECOND
from conversations.kafka import restore
from conversations.kafka.admin import apply
from conversations.kafka.connection import KafkaConnection
from conversations.protocol.topics import STATE, service_topic
from conversations.stores.memory import MemoryStores
from conversations.worker import Worker
from conversations_ops.broker import EmbeddedBroker
from tests.support import waiting

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(300)]


class Ping(BaseModel):
    n: int


class Pong(BaseModel):
    n: int


PERIODS = Periods()
PINGS = Contract("Pings", sent_by_initiator=[Ping], sent_by_target=[Pong])
until = partial(waiting.until, seconds=150)


class Interruptible(KafkaConnection):
    """Calls somebody before it asks for the identities of the topics, which a worker does when it restores."""

    asked = staticmethod(lambda: None)

    def topic_ids(self) -> Mapping[str, str]:
        self.asked()
        return super().topic_ids()


class Pair:
    """Two services whose workers run in threads."""

    def __init__(self, kafka: Kafka, partitions: int = 1) -> None:
        self.kafka = kafka
        self.pings: list[int] = []
        self.pongs: list[int] = []
        self.gate = threading.Event()
        """Shut while the second ping is handled."""
        self.caller = Service("caller", initiates=[PINGS])
        self.answerer = Service("answerer", accepts=[PINGS])

        @self.caller.on(Pong)
        def hear(pong: Pong, dialog: Dialog) -> None:
            self.pongs.append(pong.n)

        @self.answerer.on(Ping)
        def answer(ping: Ping, dialog: Dialog) -> None:
            self.pings.append(ping.n)
            if ping.n == 1:
                assert self.gate.wait(60)
            dialog.send(Pong(n=ping.n))

        apply(kafka, [self.caller.declaration(), self.answerer.declaration()], partitions, 1)

    def worker(
        self, service: Service, connection: type[KafkaConnection] = KafkaConnection, periods: Periods = PERIODS
    ) -> Worker:
        settings = WorkerSettings(periods=periods)
        return Worker(
            service, lambda: connection(self.kafka, service.name, periods=periods), MemoryStores(), settings=settings
        )


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as made:
        yield made


def test_workers_go_on_after_an_outage(broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture) -> None:
    """One of them was in the middle of its work: what it could not commit is done again, and takes effect once."""
    pair = Pair(Kafka(broker.bootstrap))
    caller, answerer = pair.worker(pair.caller), pair.worker(pair.answerer)
    with Crew([caller, answerer], pair.kafka) as crew, Client(pair.caller, pair.kafka) as client:
        crew.await_ready(60)
        with client.begin_dialog("answerer", PINGS) as dialog:
            dialog.send(Ping(n=0))
        until(lambda: pair.pongs == [0], "the first answer")
        with client.dialog(dialog.id) as going_on:
            going_on.send(Ping(n=1))
        until(lambda: pair.pings[-1:] == [1], "the second ping is being handled")
        broker.kill()
        pair.gate.set()
        until(lambda: "joining again" in caplog.text, "a worker has found nobody to join")
        assert not answerer.stopping.is_set()
        broker.restart()
        with client.dialog(dialog.id) as going_on:
            going_on.send(Ping(n=2))
        until(lambda: pair.pongs[-1:] == [2], "the last answer")
    assert sorted(set(pair.pongs)) == [0, 1, 2]
    assert pair.pongs == sorted(pair.pongs)


def test_a_worker_that_is_restoring_waits_for_its_broker(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    pair = Pair(Kafka(broker.bootstrap))
    killed = threading.Event()

    def kill() -> None:
        if not killed.is_set():
            broker.kill()
            killed.set()

    Interruptible.asked = staticmethod(kill)
    caplog.set_level(logging.INFO)
    worker = pair.worker(pair.answerer, Interruptible)
    with Crew([worker], pair.kafka) as crew:
        until(killed.is_set, "it restores")
        until(lambda: "is restored again, later" in caplog.text, "it has found nobody")
        broker.restart()
        crew.await_ready(150)
        assert list(worker.partitions) == [0]


@pytest.mark.parametrize("looked_at", [HOUR, SECOND], ids=["told by its client", "looking"])
def test_an_idle_worker_is_not_ready_while_its_broker_is_away(broker: EmbeddedBroker, looked_at: int) -> None:
    """It asks again as soon as it has lost its brokers, however seldom it looks at its topics, and says what it tries."""
    pair = Pair(Kafka(broker.bootstrap))
    periods = replace(PERIODS, topics_looked_at=looked_at, unreachable_after=SECOND)
    worker = pair.worker(pair.answerer, periods=periods)
    with Crew([worker], pair.kafka) as crew:
        crew.await_ready(60)
        assert worker.condition()["kafka"] is None
        broker.kill()
        until(lambda: not worker.ready.is_set(), "it is not ready")
        said = worker.condition()["kafka"]
        assert said["unreachable"]
        assert said["unanswered_seconds"] > 1
        assert broker.bootstrap in said["trying"]
        assert worker.joined
        broker.restart()
        crew.await_ready(150)
        assert worker.condition()["kafka"] is None


def test_an_open_transaction_holds_up_its_partition_alone(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that Kafka does not end hides the rows behind it for as long as it likes; a worker is not to die of it."""
    monkeypatch.setattr(restore, "STUCK_AFTER", 1.0)
    pair = Pair(Kafka(broker.bootstrap), partitions=2)
    state = service_topic(pair.kafka.namespace, "answerer", STATE)
    writer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "somebody"})
    writer.init_transactions(30)
    writer.begin_transaction()
    writer.produce(state, b"", b"", 0)
    writer.flush(30)
    worker = pair.worker(pair.answerer)
    with Crew([worker], pair.kafka) as crew:
        until(lambda: f"{state} partition 0 stands still" in caplog.text, "it is told what holds it up")
        until(lambda: list(worker.partitions) == [1], "the other partition is at work")
        assert not worker.ready.is_set()
        writer.abort_transaction(30)
        crew.await_ready(150)
        assert sorted(worker.partitions) == [0, 1]
