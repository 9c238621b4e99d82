"""Reading the state of conversation groups from a state topic of a real Kafka."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from conversations.config import Kafka, Periods
from conversations.durations import SECOND
from conversations.errors import DeclarationError
from conversations.kafka.admin import apply
from conversations.kafka.group_states import GroupStates
from conversations.protocol import rows
from conversations.protocol.declarations import ServiceDeclaration
from conversations.protocol.topics import partition_of, service_topic
from tests.integration.kafka.members import PARTITIONS, delete_topics

pytestmark = pytest.mark.kafka

KEY = "account-42"
NAME = rows.group_key(rows.SHARED, KEY)


def committed(kafka: Kafka, *values: bytes | None) -> None:
    """Write rows of the group in one transaction, as a worker does."""
    producer = begun(kafka, *values)
    producer.commit_transaction(20)


def begun(kafka: Kafka, *values: bytes | None) -> Producer:
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": f"{kafka.namespace}-rows"})
    producer.init_transactions(20)
    producer.begin_transaction()
    topic = service_topic(kafka.namespace, "orders", "state")
    for value in values:
        producer.produce(topic, value, NAME, partition_of(KEY.encode(), PARTITIONS))
    assert producer.flush(20) == 0
    return producer


def read(states: GroupStates) -> list[bytes]:
    return states.read(KEY, [NAME])[0]


@pytest.fixture
def states(kafka: Kafka) -> GroupStates:
    return GroupStates(kafka, "orders", Periods())


def test_each_reading_has_the_newest_committed_row(kafka: Kafka, states: GroupStates) -> None:
    assert read(states) == []
    committed(kafka, b"1", b"2")
    assert read(states) == [b"2"]
    committed(kafka, b"3")
    assert read(states) == [b"3"]
    committed(kafka, None)
    assert read(states) == []


def test_rows_of_a_transaction_that_aborts_are_not_read(kafka: Kafka, states: GroupStates) -> None:
    committed(kafka, b"1")
    begun(kafka, b"2").abort_transaction(20)
    assert read(states) == [b"1"]


def test_a_topic_that_was_made_anew_is_read_from_its_start(kafka: Kafka, states: GroupStates) -> None:
    committed(kafka, b"1", b"2", b"3")
    assert read(states) == [b"3"]
    delete_topics(kafka)
    apply(kafka, [ServiceDeclaration("orders")], PARTITIONS, 1)
    assert read(states) == []


def test_a_partition_that_was_not_read_for_long_is_read_from_its_start(kafka: Kafka, states: GroupStates) -> None:
    """Kafka may have removed the mark of a deletion by then."""
    committed(kafka, b"1")
    assert read(states) == [b"1"]
    (partition,) = states._partitions.values()
    partition.rows[rows.GROUP][NAME] = b"deleted meanwhile, and the mark of the deletion is gone"
    partition.read_at -= Periods().deletes_kept / 2 / SECOND
    assert read(states) == [b"1"]


def test_a_service_outside_the_catalog_is_named(kafka: Kafka) -> None:
    with pytest.raises(DeclarationError, match="'shop' is not in the catalog: run 'conversations apply'"):
        GroupStates(kafka, "shop", Periods()).read(KEY, [NAME])
