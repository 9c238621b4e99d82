"""Markers of transactions that a coordinator left out are found on disk and written; what is really open is left alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from conversations.kafka.offsets import Place
from conversations_ops.broker import EmbeddedBroker
from tests.chaos.cluster.markers import LOG_OF_TRANSACTIONS, Marker, complete, missing, write
from tests.chaos.cluster.segments import batches, open_transactions
from tests.integration.support.records import PATIENCE, new_topic, produce_in_transaction, read
from tests.support import waiting

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as made:
        yield made


def places(broker: EmbeddedBroker, topic: str) -> tuple[dict[Place, Path], list[Path]]:
    """Directories of the topic's one partition, and of the log of transactions."""
    logs = broker.data / "kafka"
    return {(topic, 0): logs / f"{topic}-0"}, sorted(logs.glob(f"{LOG_OF_TRANSACTIONS}-*"))


@pytest.fixture
def topic(broker: EmbeddedBroker) -> str:
    return new_topic(broker.bootstrap)


@pytest.fixture
def opened(broker: EmbeddedBroker, topic: str) -> Producer:
    """Has a transaction open in the topic."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions(PATIENCE)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(PATIENCE)
    return producer


def test_a_marker_that_is_not_there_although_its_transaction_is_complete_is_missing(
    broker: EmbeddedBroker, topic: str, tmp_path: Path
) -> None:
    produce_in_transaction(broker.bootstrap, topic, b"one", b"two")
    theirs, log = places(broker, topic)
    waiting.until(lambda: any(place == (topic, 0) for _, place in complete(log)), "its coordinator has noted it")
    assert missing(theirs, log) == []
    (whole,) = theirs[topic, 0].glob("*.log")
    *_, marker = batches(theirs[topic, 0])
    length = sum(61 + len(batch.body) for batch in batches(theirs[topic, 0]) if not batch.marker)
    (tmp_path / whole.name).write_bytes(whole.read_bytes()[:length])
    (found,) = missing({(topic, 0): tmp_path}, log)
    assert (found.topic, found.partition, found.producer, found.commit) == (topic, 0, marker.producer, True)


def test_a_transaction_that_is_under_way_misses_no_marker(broker: EmbeddedBroker, topic: str, opened: Producer) -> None:
    theirs, log = places(broker, topic)
    assert open_transactions(theirs[topic, 0])
    assert missing(theirs, log) == []
    opened.abort_transaction(PATIENCE)


def test_a_marker_that_was_written_ends_its_transaction(broker: EmbeddedBroker, topic: str, opened: Producer) -> None:
    theirs, _ = places(broker, topic)
    (transaction,) = open_transactions(theirs[topic, 0])
    assert write(Marker(topic, 0, transaction.producer, transaction.epoch, False, 0), broker.port) == 0
    assert open_transactions(theirs[topic, 0]) == set()
    other = Producer({"bootstrap.servers": broker.bootstrap})
    other.produce(topic, b"behind it")
    assert other.flush(PATIENCE) == 0
    assert read(broker.bootstrap, topic, 1) == [b"behind it"]
