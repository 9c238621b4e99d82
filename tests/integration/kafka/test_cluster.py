"""What a cluster is made of, and the times in its logs, on a real Kafka."""

import time

import pytest
from confluent_kafka import Producer

from conversations.config import Kafka
from conversations.kafka.cluster import INTERNAL, look_at_cluster, look_at_topics, topic_names
from conversations.kafka.log_times import dated_after, open_transactions
from tests.integration.kafka.members import PARTITIONS
from tests.support.waiting import until

pytestmark = pytest.mark.kafka


def producer(kafka: Kafka, name: str) -> Producer:
    made = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": f"{kafka.namespace}.{name}"})
    made.init_transactions(30)
    return made


def test_the_brokers_tell_their_settings_and_the_features_of_the_cluster(kafka: Kafka) -> None:
    producer(kafka, "makes Kafka's own topic")
    found = look_at_cluster(kafka)
    assert [it.id for it in found.brokers] == [1]
    assert found.brokers[0].settings is not None
    assert found.brokers[0].settings["transaction.state.log.replication.factor"] == "1"
    assert found.features is not None
    assert (found.features["group.version"], found.features["transaction.version"]) == (1, 2)
    transactions = found.internal[INTERNAL[0]]
    assert (transactions.replication, (transactions.settings or {})["min.insync.replicas"]) == (1, "1")


def test_topics_are_found_with_their_partitions_settings_and_rights(kafka: Kafka) -> None:
    queue = f"{kafka.namespace}.orders.queue"
    assert queue in topic_names(kafka, f"{kafka.namespace}.")
    found, hidden = look_at_topics(kafka, [queue, f"{kafka.namespace}.nobody.queue"])
    assert (set(found), hidden) == ({queue}, frozenset())
    assert [(it.number, it.leader, it.replicas, it.in_sync) for it in found[queue].partitions] == [
        (number, 1, (1,), (1,)) for number in range(PARTITIONS)
    ]
    assert (found[queue].settings or {})["message.timestamp.type"] == "LogAppendTime"
    assert {"READ", "WRITE"} <= (found[queue].rights or set())


def test_only_an_open_transaction_is_open(kafka: Kafka) -> None:
    queue = f"{kafka.namespace}.orders.queue"
    places = [(queue, number) for number in range(PARTITIONS)]
    assert open_transactions(kafka, places) == {}
    began = time.time()
    one = producer(kafka, "one")
    one.begin_transaction()
    one.produce(queue, b"open", partition=1)
    one.flush(30)
    (found,) = open_transactions(kafka, places).items()
    assert found[0] == (queue, 1)
    assert began - 1 <= found[1] / 1_000_000 <= time.time() + 1
    one.commit_transaction(30)
    # The coordinator answers before the markers are written.
    until(lambda: open_transactions(kafka, places) == {}, "the transaction has ended")


def test_a_record_that_is_dated_later_is_found(kafka: Kafka) -> None:
    queue = f"{kafka.namespace}.orders.queue"
    one = producer(kafka, "two")
    one.begin_transaction()
    one.produce(queue, b"now", partition=0)
    one.commit_transaction(30)
    places = [(queue, number) for number in range(PARTITIONS)]
    now = int(time.time() * 1_000)
    assert dated_after(kafka, places, now + 60_000) == {}
    found = dated_after(kafka, places, now - 60_000)
    assert set(found) == {(queue, 0)}
    assert abs(found[queue, 0] / 1_000 - now) < 60_000
