"""Handlers that outlast every time-out of Kafka: nobody is thrown out, nothing is fenced, everybody else goes on."""

from collections.abc import Iterator
from time import monotonic
from uuid import uuid4

import pytest

from conversations import Client, Kafka, WorkerSettings
from conversations.crew import Crew, kafka_worker
from conversations.kafka.admin import apply
from conversations.kafka.transactions import TRANSACTION_TIMEOUT
from tests.slow_handlers.support.gated_service import Blocking, Task, Workshop
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(180)]

MAX_POLL = 6.0
"""Seconds after which librdkafka leaves the group for a consumer that does not poll; an embedded broker misses a member after 3 s."""


@pytest.fixture
def kafka(kafka_bootstrap: str) -> Kafka:
    settings = {"max.poll.interval.ms": int(MAX_POLL * 1_000)}
    return Kafka(kafka_bootstrap, namespace=f"s{uuid4().hex[:10]}", settings=settings)


@pytest.fixture
def shop() -> Iterator[Workshop]:
    made = Workshop()
    yield made
    made.close()


def test_handlers_that_outlast_session_poll_interval_and_transaction_cost_nobody_anything(
    kafka: Kafka, shop: Workshop
) -> None:
    """Four in threads and one that blocks the event loop; their dialogs wait in order, and many others are served."""
    apply(kafka, [shop.boss.declaration(), shop.shop.declaration()], 2, 1)
    boss = kafka_worker(shop.boss, kafka, WorkerSettings())
    worker = kafka_worker(shop.shop, kafka, WorkerSettings(concurrency=8))
    names = [f"slow-{n}" for n in range(4)]
    with Crew([boss, worker], kafka) as crew, Client(shop.boss, kafka) as client:
        crew.await_ready(60)
        until(lambda: len(worker.partitions) == 2, "it owns everything")
        owned = dict(worker.partitions)

        def ask(*tasks: Task | Blocking) -> None:
            with client.begin_dialog("shop", shop.contract) as dialog:
                for task in tasks:
                    dialog.send(task)

        for name in names:
            ask(Task(name=name, stuck=True), *(Task(name=name, n=n) for n in range(1, 4)))
        ask(Blocking(name="block"))
        until(lambda: all(shop.gates.entered(name) for name in [*names, "block"]), "all are at work")
        since, served = monotonic(), 0
        while monotonic() - since < max(MAX_POLL, TRANSACTION_TIMEOUT) + 2:
            served += 1
            ask(Task(name="quick", n=served))
            until(lambda: shop.results[-1:] == [("quick", served)], "the others are served", 20)  # noqa: B023
        shop.gates.open(*names, "block")
        until(lambda: len(shop.results) == served + 4 * 4 + 1, "everything is done", 30)
        assert all(worker.partitions[number] is partition for number, partition in owned.items())
    for name in names:
        assert [n for who, n in shop.results if who == name] == [0, 1, 2, 3]
    assert (worker.counts.fenced, worker.counts.failures, boss.counts.fenced) == (0, 0, 0)
