"""Reading a partition up to an end that is known beforehand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from confluent_kafka import Consumer, Producer

from conversations.config import Kafka
from conversations.errors import StaleAnswer
from conversations.kafka import restore
from tests.integration.kafka.members import fill, topic, until

pytestmark = pytest.mark.kafka


def test_a_reader_that_stands_still_is_replaced_and_reads_on_where_it_was(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old one may know no broker but a leader that is cut off. The new ones take turns; nothing is read twice or left out."""
    monkeypatch.setattr(restore, "RENEWED_AFTER", 0.2)
    made: list[int] = []
    servers: list[str] = []
    here, nobody = kafka.bootstrap, "127.0.0.1:9"
    real = restore._reading

    def reading(kafka: Kafka, topic: str, partition: int, start: int) -> Consumer:
        made.append(start)
        servers.append(kafka.bootstrap)
        return real(kafka, topic, partition, start)

    monkeypatch.setattr(restore, "_reading", reading)
    name = topic(kafka, "state")
    fill(kafka, name, [b"1", b"2", b"3"])
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": f"{kafka.namespace}-open"})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(name, b"4", b"k", 0)
    assert producer.flush(10) == 0
    reader = restore.BoundedReader(replace(kafka, bootstrap=f"{here},{nobody}"), name, 0, 0, 4)
    rows: list[tuple[bytes, bytes | None]] = []

    def stands_still() -> bool:
        rows.extend(reader.read(10))
        return made[-3:] == [3, 3, 3]

    def is_done() -> bool:
        rows.extend(reader.read(10))
        return reader.done

    until(stands_still)
    producer.commit_transaction(20)
    until(is_done)
    reader.close()
    assert [value for _, value in rows] == [b"1", b"2", b"3", b"4"]
    assert made[0] == 0
    assert servers[:4] == [f"{here},{nobody}", here, nobody, here]


def test_a_reader_whose_broker_has_less_than_was_there_begins_again_elsewhere(kafka: Kafka) -> None:
    """A leader that was cut off knows nothing of what the others took; that is no reason to end a worker."""
    name = topic(kafka, "state")
    fill(kafka, name, [b"1"])
    reader = restore.BoundedReader(kafka, name, 0, 5, 9)
    with pytest.raises(StaleAnswer, match="has nothing at 5, and ended at 9 before"):
        until(lambda: reader.read(10))
    reader.close()
