"""Dialogs between services on two clusters, with forwarders in between."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from pydantic import BaseModel

from conversations import (
    Client,
    Contract,
    DeclarationError,
    Dialog,
    Kafka,
    LogError,
    Service,
    WorkerSettings,
)
from conversations.crew import Crew, kafka_worker
from conversations.kafka import catalog as catalog_module
from conversations.kafka.admin import add_route, apply, remove_route
from conversations.kafka.carrier import Carrier
from conversations.kafka.catalog import read_catalog
from conversations.kafka.forwarded import position_in
from conversations.kafka.forwarder import Forwarder
from conversations.kafka.restore import read_all
from conversations.ports import Out, Record
from conversations.protocol.routes import Cluster
from conversations.protocol.topics import QUEUE, forwarded_topic, service_topic, transmission_topic
from conversations_ops.broker import EmbeddedBroker
from tests.integration.kafka.members import delete_topic, delete_topics, set_topic
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]


class Ask(BaseModel):
    n: int
    pad: str = ""


class Answer(BaseModel):
    n: int


QUESTIONS = Contract("Questions", sent_by_initiator=[Ask], sent_by_target=[Answer], lifetime=timedelta(hours=1))


class Asker:
    """A service here, which knows the answers that it got, and the dialogs that ended."""

    def __init__(self) -> None:
        self.answers: dict[str, list[int]] = {}
        self.ended: set[str] = set()
        self.service: Service[dict[str, Any]] = Service("asker", initiates=[QUESTIONS])

        @self.service.on(Answer)
        def take(body: Answer, dialog: Dialog[dict[str, Any]]) -> None:
            self.answers.setdefault(dialog.id, []).append(body.n)

        @self.service.on_end(QUESTIONS)
        def over(dialog: Dialog[dict[str, Any]]) -> None:
            self.ended.add(dialog.id)


def answerer(last: int) -> Service[dict[str, Any]]:
    """Return a service that answers each question, and ends the dialog after the last one."""
    service: Service[dict[str, Any]] = Service("answerer", accepts=[QUESTIONS])

    @service.on(Ask)
    def answer(body: Ask, dialog: Dialog[dict[str, Any]]) -> None:
        dialog.send(Answer(n=body.n))
        if body.n == last:
            dialog.end()

    return service


@pytest.fixture(scope="module")
def far() -> Iterator[str]:
    with EmbeddedBroker() as broker:
        yield broker.bootstrap


@pytest.fixture
def here(kafka_bootstrap: str) -> Iterator[Kafka]:
    kafka = Kafka(kafka_bootstrap, namespace=f"h{uuid4().hex[:10]}")
    yield kafka
    delete_topics(kafka)


@pytest.fixture
def there(far: str) -> Iterator[Kafka]:
    kafka = Kafka(far, namespace=f"t{uuid4().hex[:10]}")
    yield kafka
    delete_topics(kafka)


def joined(here: Kafka, there: Kafka, last: int) -> tuple[Asker, Service[dict[str, Any]], Cluster, Cluster]:
    """Apply both services, each on its own cluster, and the routes."""
    asker, service = Asker(), answerer(last)
    apply(here, [asker.service.declaration()], 3, 1)
    apply(there, [service.declaration()], 2, 1)
    emea, home = (
        Cluster("emea", there.bootstrap, there.namespace, 4),
        Cluster("home", here.bootstrap, here.namespace, 4),
    )
    add_route(here, "answerer", emea, 1)
    add_route(there, "asker", home, 1)
    return asker, service, emea, home


@contextmanager
def forwarding(*forwarders: Forwarder) -> Iterator[None]:
    threads = [threading.Thread(target=it.run) for it in forwarders]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for it in forwarders:
            it.stop()
        for thread in threads:
            thread.join()


@contextmanager
def working(*workers: tuple[Service[dict[str, Any]], Kafka]) -> Iterator[None]:
    with ExitStack() as stack:
        for service, kafka in workers:
            stack.enter_context(Crew([kafka_worker(service, kafka, WorkerSettings(slot="0"))], kafka))
        yield


def begin(client: Client, count: int, last: int) -> list[str]:
    names = []
    for _ in range(count):
        with client.begin_dialog("answerer", QUESTIONS) as dialog:
            for n in range(last + 1):
                dialog.send(Ask(n=n))
        names.append(dialog.id)
    return names


def test_a_dialog_crosses_two_clusters_in_order_and_ends_on_both(here: Kafka, there: Kafka) -> None:
    asker, service, emea, home = joined(here, there, 4)
    with working((asker.service, here), (service, there)), Client(asker.service, here) as client:
        names = begin(client, 20, 4)
        with forwarding(Forwarder(here, emea, there), Forwarder(there, home, here)):
            until(lambda: asker.ended >= set(names), "all dialogs end", 60)
    assert asker.answers == {name: [0, 1, 2, 3, 4] for name in names}


def test_forwarders_that_end_and_begin_again_repeat_nothing(here: Kafka, there: Kafka) -> None:
    asker, service, emea, home = joined(here, there, 9)
    with working((asker.service, here), (service, there)), Client(asker.service, here) as client:
        names: list[str] = []
        for _ in range(4):
            names += begin(client, 25, 9)
            half = len(names) // 2
            # Two forwarders share the partitions, and all end in the middle of the work.
            with forwarding(*(Forwarder(here, emea, there) for _ in range(2)), Forwarder(there, home, here)):
                until(lambda half=half: len(asker.ended) > half, "half of the dialogs end", 60)  # type: ignore[misc]
        with forwarding(Forwarder(here, emea, there), Forwarder(there, home, here)):
            until(lambda: asker.ended >= set(names), "all dialogs end", 60)
    assert asker.answers == {name: list(range(10)) for name in names}
    with forwarding(Forwarder(here, emea, there)):  # the workers have ended, so nothing new is written
        until(lambda: _records(there, "answerer") >= _sent(here, "emea"), "all is carried", 30)
    assert _records(there, "answerer") == _sent(here, "emea"), "each envelope is there once"


def test_a_service_that_is_not_there_yet_gets_its_messages_later(here: Kafka, there: Kafka) -> None:
    asker, service = Asker(), answerer(0)
    apply(here, [asker.service.declaration()], 1, 1)
    apply(there, [], 1, 1)
    emea, home = (
        Cluster("emea", there.bootstrap, there.namespace, 1),
        Cluster("home", here.bootstrap, here.namespace, 1),
    )
    add_route(here, "answerer", emea, 1)
    add_route(there, "asker", home, 1)
    forwarder = Forwarder(here, emea, there)
    with (
        working((asker.service, here)),
        Client(asker.service, here) as client,
        forwarding(forwarder, Forwarder(there, home, here)),
    ):
        names = begin(client, 1, 0)
        until(lambda: forwarder.carried.unknown, "the forwarder has no place for the message", 60)
        assert asker.ended == set()
        apply(there, [service.declaration()], 1, 1)
        with working((service, there)):
            until(lambda: asker.ended >= set(names), "the dialog ends", 60)


@pytest.mark.parametrize("refuses", ["large records", "everything"])
def test_a_queue_that_refuses_records_holds_up_no_other_queue(here: Kafka, there: Kafka, refuses: str) -> None:
    """The records for it are left out, and carried when the topic is mended, because their senders transmit them again."""
    asker, service, emea, home = joined(here, there, 1)
    other: Service[dict[str, Any]] = Service("other", accepts=[QUESTIONS])
    heard: list[int] = []

    @other.on(Ask)
    def hear(body: Ask, _dialog: Dialog[dict[str, Any]]) -> None:
        heard.append(len(body.pad))

    apply(there, [other.declaration()], 1, 1)
    add_route(here, "other", emea, 1)
    queue = service_topic(there.namespace, "other", QUEUE)
    forwarder = Forwarder(here, emea, there)
    with (
        working((asker.service, here), (service, there)),
        Client(asker.service, here) as client,
        forwarding(forwarder, Forwarder(there, home, here)),
    ):
        if refuses == "everything":
            delete_topic(there, queue)
        else:
            set_topic(there, queue, "max.message.bytes", "20000")
        with client.begin_dialog("other", QUESTIONS) as dialog:
            dialog.send(Ask(n=0, pad="x"))
            dialog.send(Ask(n=1, pad="x" * 100_000))
        until(lambda: forwarder.carried.unknown, "the queue has refused a record", 60)
        names = begin(client, 5, 1)
        until(lambda: asker.ended >= set(names), "the dialogs with another service end", 30)
        assert forwarder.trouble == ""
        assert 100_000 not in heard
        if refuses == "everything":
            apply(there, [other.declaration()], 1, 1)
        else:
            set_topic(there, queue, "max.message.bytes", "2000000")
        with working((other, there)):
            until(lambda: heard == [1, 100_000], "the messages arrive", 90)


class Lossy(Forwarder):
    """A forwarder that loses every fifth envelope."""

    seen = 0

    def _addressed(self, record: Record) -> Out | None:
        self.seen += 1
        return None if self.seen % 5 == 0 else super()._addressed(record)


@pytest.mark.slow
def test_what_is_lost_between_the_clusters_is_transmitted_again(here: Kafka, there: Kafka) -> None:
    asker, service, emea, home = joined(here, there, 9)
    with (
        working((asker.service, here), (service, there)),
        Client(asker.service, here) as client,
        forwarding(Lossy(here, emea, there), Lossy(there, home, here)),
    ):
        names = begin(client, 20, 9)
        until(lambda: asker.ended >= set(names), "all dialogs end", 120)
    assert asker.answers == {name: list(range(10)) for name in names}


def test_messages_go_the_way_that_the_route_says(here: Kafka, there: Kafka) -> None:
    joined(here, there, 0)
    remove_route(here, "answerer")
    assert read_catalog(here).route("answerer") is None
    with pytest.raises(DeclarationError, match="has no route"):
        remove_route(here, "answerer")


def test_dialogs_go_on_when_a_route_changes_while_their_worker_runs(
    here: Kafka, there: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new way has another number of partitions. What waits on the old way goes the new way, too, because it is transmitted again."""
    monkeypatch.setattr(catalog_module, "ROUTE_KNOWN_FOR", 0.5)
    asker, service, emea, home = joined(here, there, 9)
    other = Cluster("apac", there.bootstrap, there.namespace, 3)
    with (
        working((asker.service, here), (service, there)),
        Client(asker.service, here) as client,
        forwarding(Forwarder(there, home, here)),
    ):
        with forwarding(Forwarder(here, emea, there)):
            names = begin(client, 5, 8)
            until(lambda: all(len(asker.answers.get(name, [])) == 9 for name in names), "the first answers come", 60)
        old = _sent(here, "emea")
        with client.dialog(names[0]) as dialog:
            dialog.send(Ask(n=9))
        until(lambda: _sent(here, "emea") > old, "it waits on the old way", 60)
        assert add_route(here, "answerer", other, 1)
        with forwarding(Forwarder(here, other, there)):
            for name in names[1:]:
                with client.dialog(name) as dialog:
                    dialog.send(Ask(n=9))
            until(lambda: asker.ended >= set(names), "all dialogs end", 90)
    assert asker.answers == {name: list(range(10)) for name in names}


def _records(kafka: Kafka, service: str) -> int:
    return sum(len(read_all(kafka, service_topic(kafka.namespace, service, QUEUE), partition=it)[0]) for it in range(2))


def _sent(kafka: Kafka, cluster: str) -> int:
    return sum(len(read_all(kafka, transmission_topic(kafka.namespace, cluster), partition=it)[0]) for it in range(4))


def carry(carrier: Carrier, outs: list[Out], position: int) -> None:
    carrier.append(outs, position)
    carrier.commit()


def test_a_carrier_whose_partition_has_another_one_appends_nothing(here: Kafka, there: Kafka) -> None:
    joined(here, there, 0)
    topic = service_topic(there.namespace, "answerer", QUEUE)
    old, new = Carrier(there, "id", 0), Carrier(there, "id", 0)
    old.start()
    carry(old, [Out(topic, 0, b"k", b"one", None)], 1)
    new.start()
    with pytest.raises(LogError):
        carry(old, [Out(topic, 0, b"k", b"two", None)], 2)
    carry(new, [Out(topic, 0, b"k", b"three", None)], 2)
    assert [value for _, value in read_all(there, topic)[0]] == [b"one", b"three"]
    positions = dict(read_all(there, forwarded_topic(there.namespace))[0])
    assert position_in(positions[old.key]) == 2


def test_a_route_is_not_for_a_service_of_this_cluster(here: Kafka, there: Kafka) -> None:
    _, service, emea, _ = joined(here, there, 0)
    with pytest.raises(DeclarationError, match="lives on this cluster"):
        add_route(here, "asker", emea, 1)
    with pytest.raises(DeclarationError, match="lives on cluster 'emea': remove its route"):
        apply(here, [service.declaration()], 2, 1)
    with pytest.raises(DeclarationError, match="has 4 partitions, not 5"):
        add_route(here, "other", emea._replace(partitions=5), 1)
    assert add_route(here, "answerer", emea, 1) == []
    assert read_catalog(here).route("answerer") == emea


@pytest.mark.slow
def test_a_cluster_that_is_away_is_no_error(here: Kafka, there: Kafka) -> None:
    asker, service, emea, home = joined(here, there, 0)
    away = replace(there, bootstrap="127.0.0.1:1")
    forwarder = Forwarder(here, emea, away)
    with working((asker.service, here), (service, there)), Client(asker.service, here) as client:
        names = begin(client, 1, 0)
        with forwarding(forwarder):
            until(lambda: forwarder.trouble, "the forwarder says that nothing is carried", 60)
        with forwarding(Forwarder(here, emea, there), Forwarder(there, home, here)):
            until(lambda: asker.ended >= set(names), "the dialog ends", 60)
