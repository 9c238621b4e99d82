"""Reading whole topics, and appending records a second time, on a real Kafka."""

from collections import Counter
from random import Random
from threading import Event
from time import monotonic

import pytest

from conversations.config import Kafka
from conversations.errors import LogError
from conversations.kafka.clients import make_producer
from conversations.kafka.follow import Follower
from conversations.kafka.offsets import ends_of, partitions_of, positions_of
from conversations_ops.demo.replay import Replayer

pytestmark = pytest.mark.kafka
SETTINGS = {"acks": "all"}


def append(kafka: Kafka, topic: str, count: int, *, start: int = 0) -> None:
    producer = make_producer(kafka, SETTINGS)
    for number in range(start, start + count):
        producer.produce(topic, f"{number}", f"key {number}", number % 2, headers=[("n", f"{number}".encode())])
    producer.flush()


def abort(kafka: Kafka, topic: str) -> None:
    producer = make_producer(kafka, {"transactional.id": f"{topic}.aborting"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"never said", partition=0)
    producer.flush()
    producer.abort_transaction()


def test_everything_to_the_end_is_read_and_nothing_of_an_aborted_transaction(kafka: Kafka) -> None:
    topic = f"{kafka.namespace}.orders.queue"
    append(kafka, topic, 100)
    abort(kafka, topic)
    with Follower(kafka, [topic]) as follower:
        records = follower.to_the_end(20)
        assert Counter(record.value() for record in records) == Counter(f"{n}".encode() for n in range(100))
        for number in (0, 1):
            own = [int(record.value() or b"") for record in records if record.partition() == number]
            assert own == sorted(own)
        append(kafka, topic, 10, start=100)
        assert len(follower.to_the_end(20)) == 10
    assert ends_of(kafka, [(topic, 0)])[topic, 0] == 57  # 55 records, the aborted one, and its marker


def test_a_missing_topic_is_named(kafka: Kafka) -> None:
    with pytest.raises(LogError, match=r"topics are missing: .*nowhere"):
        Follower(kafka, [f"{kafka.namespace}.nowhere"])


def test_a_service_that_never_worked_is_at_the_start_everywhere(kafka: Kafka) -> None:
    positions = positions_of(kafka, "orders")
    assert set(positions) == set(partitions_of(kafka, [f"{kafka.namespace}.orders.queue"]))
    assert set(positions.values()) == {0}


def test_duplicates_are_the_same_records_again_in_the_same_partition(kafka: Kafka) -> None:
    topic = f"{kafka.namespace}.orders.queue"
    append(kafka, topic, 200)
    replayer = Replayer(kafka, [topic], 0.1, Random(1))
    replayer.start()
    deadline = monotonic() + 30
    while not replayer.places:  # some are appended at once
        assert monotonic() < deadline
        Event().wait(0.02)
    replayer.finish()
    with Follower(kafka, [topic]) as follower:
        records = follower.to_the_end(20)
    seen = Counter((record.partition(), record.key(), record.value(), str(record.headers())) for record in records)
    places = {((record.topic(), record.partition()), record.offset()) for record in records}
    assert len(seen) == 200
    assert sum(seen.values()) == 200 + len(replayer.places)
    assert set(replayer.places) <= places
    assert 5 < len(replayer.places) < 60
