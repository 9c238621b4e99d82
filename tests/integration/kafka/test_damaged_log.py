"""A bit that flips on a broker's disk, in a record that was written well: whoever decides something by it is told."""

from pathlib import Path

import pytest
from confluent_kafka import Producer

from conversations.config import Kafka
from conversations.errors import InputLost, LogError
from conversations.kafka.admin import apply
from conversations.kafka.follow import Follower
from conversations.kafka.restore import BoundedReader
from conversations.ports import Positions
from conversations.protocol.declarations import ServiceDeclaration
from conversations_ops.broker import EmbeddedBroker
from tests.integration.kafka.members import Member, until

pytestmark = pytest.mark.kafka

VALUE = b"forty-two is what was written, and what is to be read"


def test_a_flipped_bit_in_a_log_segment_is_noticed_by_every_reader(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path / "kafka") as broker:
        kafka = Kafka(broker.bootstrap, namespace="damaged")
        apply(kafka, [ServiceDeclaration("orders")], 1, 1)
        topics = [f"damaged.orders.{kind}" for kind in ("queue", "commands", "state", "dead-letter")]
        producer = Producer({"bootstrap.servers": kafka.bootstrap})
        for name in topics:
            producer.produce(name, VALUE, b"k", 0)
        assert producer.flush(10) == 0
    for name in topics:
        flip_a_bit(tmp_path / "kafka", name)
    with EmbeddedBroker(tmp_path / "kafka") as broker:
        kafka = Kafka(broker.bootstrap, namespace="damaged")
        for name in topics:
            with (
                Follower(kafka, [name]) as follower,
                pytest.raises(LogError, match=f"{name} partition 0 cannot be read"),
            ):
                follower.to_the_end(20)
        reader = BoundedReader(kafka, topics[2], 0, 0, 1)
        with pytest.raises(LogError, match="state partition 0 cannot be read"):
            until(lambda: reader.read(10))
        reader.close()
        member = Member(kafka).join().owns(1)
        member.connection.open(0, Positions(0, 0))
        with pytest.raises(InputLost):
            until(member.poll)
        member.connection.close()


def flip_a_bit(data: Path, topic: str) -> None:
    """Change the value of a record on the disk of a broker that is stopped."""
    (segment,) = data.rglob(f"{topic}-0/*.log")
    content = bytearray(segment.read_bytes())
    content[content.index(VALUE)] ^= 1
    segment.write_bytes(content)
