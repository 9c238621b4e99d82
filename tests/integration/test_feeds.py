"""Feeds on a real Kafka: the records of a plain topic begin dialogs, also after stops, with several workers, and while the topic is gone."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from pydantic import BaseModel

from conversations import (
    Contract,
    DeclarationError,
    Dialog,
    Kafka,
    LogError,
    PlainRecord,
    Service,
    WorkerSettings,
    local,
)
from conversations.config import Periods
from conversations.crew import Crew, kafka_feeders, kafka_worker
from conversations.durations import SECOND
from conversations.feeds import Feeder
from conversations.kafka.admin import apply, missing_plain_topics
from conversations.kafka.feeding import KafkaFeeder
from conversations.kafka.follow import Follower
from conversations.kafka.offsets import committed as committed_offsets
from conversations.protocol import letters
from conversations.protocol.topics import feed_group, service_topic
from conversations_ops.broker import EmbeddedBroker
from tests.integration.kafka.members import delete_topics
from tests.integration.support.plain_topics import create_topic, delete_topic
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]


class Placed(BaseModel):
    n: int


ORDERS = Contract("Orders", sent_by_initiator=[Placed], lifetime=timedelta(days=1))


@pytest.fixture
def kafka(kafka_bootstrap: str) -> Iterator[Kafka]:
    kafka = Kafka(kafka_bootstrap, namespace=f"f{uuid4().hex[:10]}")
    yield kafka
    delete_topics(kafka)


@pytest.fixture
def topic(kafka: Kafka) -> Iterator[str]:
    name = create_topic(kafka, f"shop.orders-{kafka.namespace}", 4)
    yield name
    delete_topic(kafka, name)


def placed(record: PlainRecord) -> object:
    return None if record.value is None else Placed.model_validate_json(record.value)


def web(topic: str, turn: Callable[[PlainRecord], object] = placed, start: Any = "earliest") -> Service[dict[str, Any]]:
    service = Service("web", initiates=[ORDERS])
    service.from_topic(topic, to="orders", contract=ORDERS, start=start)(turn)
    return service


def orders() -> tuple[Service[dict[str, Any]], list[int]]:
    service = Service("orders", accepts=[ORDERS])
    seen: list[int] = []

    @service.on(Placed)
    def take(body: Placed, _dialog: Dialog[dict[str, Any]]) -> None:
        seen.append(body.n)

    return service, seen


def append(kafka: Kafka, topic: str, numbers: range, *, value: bytes | None = None) -> None:
    """Append records as a program of somebody else does."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "partitioner": "murmur2_random"})
    for n in numbers:
        producer.produce(topic, value if value is not None else Placed(n=n).model_dump_json(), str(n))
    assert producer.flush(60) == 0


def commands(kafka: Kafka) -> int:
    """How many commands the service has got."""
    with Follower(kafka, [service_topic(kafka.namespace, "web", "commands")]) as follower:
        return len(follower.to_the_end(30))


def test_each_record_begins_one_dialog_also_after_a_stop(kafka: Kafka, topic: str) -> None:
    service, seen = orders()
    append(kafka, topic, range(300))
    for begin in (300, 600):
        with local(web(topic), service, kafka=kafka):
            until(lambda: len(seen) >= begin, "all records have begun their dialogs", 60)  # noqa: B023 - called at once
            append(kafka, topic, range(begin, begin + 300))
            until(lambda: len(seen) >= begin + 300, "also the later ones", 60)  # noqa: B023
        seen[:] = list(set(seen))
    assert sorted(seen) == list(range(900))
    assert commands(kafka) == 900


def test_a_feed_that_begins_at_the_end_misses_nothing_later(kafka: Kafka, topic: str) -> None:
    """The end is committed before the first record is read."""
    service, seen = orders()
    append(kafka, topic, range(100))
    group = feed_group(kafka.namespace, "web", topic)
    with local(web(topic, start="latest"), service, kafka=kafka):
        places = [(topic, number) for number in range(4)]
        until(lambda: sum(max(it.offset, 0) for it in committed_offsets(kafka, group, places)) == 100, "the end", 60)
    append(kafka, topic, range(100, 200))
    with local(web(topic, start="latest"), service, kafka=kafka):
        until(lambda: len(seen) >= 100, "the records that came meanwhile", 60)
    assert sorted(seen) == list(range(100, 200))


def test_two_workers_share_the_partitions_and_one_takes_over(kafka: Kafka, topic: str) -> None:
    service, seen = orders()
    first_web, second_web = web(topic), web(topic)
    apply(kafka, [first_web.declaration(), service.declaration()], 2, 1)

    def crew(one: Service[Any], slot: str, *, target: bool = False) -> tuple[Crew, list[Feeder]]:
        settings = WorkerSettings(slot=slot)
        feeders = kafka_feeders(one, kafka, settings)
        workers = [kafka_worker(one, kafka, settings)]
        if target:
            workers.append(kafka_worker(service, kafka, settings))
        return Crew(workers, kafka, feeders), feeders

    first, (feeder,) = crew(first_web, "a", target=True)
    with first:
        second, (other,) = crew(second_web, "b")
        with second:
            sent = 0

            def both_work() -> bool:
                nonlocal sent
                append(kafka, topic, range(sent, sent + 20))
                sent += 20
                return feeder.counts.begun > 0 and other.counts.begun > 0

            until(both_work, "both workers read", 90, pause=0.5)
        append(kafka, topic, range(sent, sent + 50))
        until(lambda: len(seen) >= sent + 50, "the first worker goes on alone", 90)
    assert sorted(seen) == list(range(sent + 50))


def test_a_record_that_cannot_be_turned_is_a_dead_letter_and_the_feed_goes_on(kafka: Kafka, topic: str) -> None:
    service, seen = orders()
    append(kafka, topic, range(1), value=b"no JSON")
    append(kafka, topic, range(1, 5))
    with local(web(topic), service, kafka=kafka):
        until(lambda: len(seen) >= 4, "the others have begun", 60)
        with Follower(kafka, [service_topic(kafka.namespace, "web", "dead-letter")]) as follower:
            (letter,) = until(lambda: follower.to_the_end(30), "the letter is there", 60)
    headers = dict(letter.headers() or ())
    assert letter.value() == b"no JSON"
    assert (headers["dl.header.from.topic"], headers["dl.header.from.key"]) == (topic.encode(), b"0")
    assert headers[letters.REASON] == b"set-aside"
    assert b"ValidationError" in headers["dl.exception-message"]


def test_a_service_does_not_start_without_the_topic(kafka: Kafka) -> None:
    missing = f"missing-{kafka.namespace}"
    declaration = web(missing).declaration()
    line = f"web: topic {missing}, from which the service reads, does not exist. Create it before its workers start"
    assert line in apply(kafka, [declaration], 1, 1)
    assert missing_plain_topics(kafka, [declaration]) == [line]
    with (
        pytest.raises(LogError, match=f"reads from topic {missing}, which does not exist. Its owner creates it"),
        local(web(missing), kafka=kafka),
    ):
        pass
    with pytest.raises(DeclarationError, match="cannot read from"):
        apply(kafka, [web(f"{kafka.namespace}.events").declaration()], 1, 1)


@pytest.mark.slow
def test_a_feed_waits_for_a_topic_that_was_deleted_and_reads_the_next_one_from_its_beginning(
    kafka: Kafka, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The service goes on meanwhile."""
    service, seen = orders()
    settings = WorkerSettings(periods=Periods(topics_looked_at=SECOND))
    with local(web(topic, start="latest"), service, kafka=kafka, initiates=[ORDERS], settings=settings) as client:
        group = feed_group(kafka.namespace, "web", topic)
        until(lambda: committed_offsets(kafka, group, [(topic, 0)])[0].offset >= 0, "the feed has begun", 60)
        append(kafka, topic, range(20))
        until(lambda: len(seen) >= 20, "the first topic is read", 60)
        delete_topic(kafka, topic)
        until(lambda: f"{topic}, which does not exist" in caplog.text, "the feed waits", 60)
        with client.begin_dialog("orders", ORDERS) as dialog:
            dialog.send(Placed(n=1_000))
        until(lambda: 1_000 in seen, "others go on", 60)
        create_topic(kafka, topic, 2)
        append(kafka, topic, range(20, 40))
        until(lambda: len(seen) >= 41, "the next topic is read", 90)
    assert sorted(seen) == [*range(40), 1_000]


def test_a_feed_that_is_asked_to_stop_ends_and_its_condition_tells_what_it_did(kafka: Kafka, topic: str) -> None:
    service, _ = orders()
    one = web(topic)
    apply(kafka, [one.declaration(), service.declaration()], 1, 1)
    append(kafka, topic, range(3))
    (feeder,) = kafka_feeders(one, kafka, WorkerSettings())
    assert isinstance(feeder, KafkaFeeder)
    with Crew([kafka_worker(one, kafka, WorkerSettings())], kafka, [feeder]):
        until(lambda: feeder.counts.begun >= 3, "the records have begun", 60)
    assert feeder.condition() == {"topic": topic, "begun": 3, "skipped": 0, "refused": 0, "trouble": ""}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_feed_outlives_its_broker() -> None:
    """The broker is killed while records are read, and comes back."""
    service, seen = orders()
    with EmbeddedBroker() as broker:
        kafka = Kafka(broker.bootstrap)
        name = create_topic(kafka, "shop.orders", 2)
        append(kafka, name, range(2_000))
        with local(web(name), service, kafka=kafka, settings=WorkerSettings(batch=50)):
            until(lambda: len(seen) >= 100, "the feed is at work", 60)
            broker.kill()
            broker.restart()
            append(kafka, name, range(2_000, 2_100))
            until(lambda: len(set(seen)) >= 2_100, "all records have begun their dialogs", 300)
        assert commands(kafka) == 2_100
