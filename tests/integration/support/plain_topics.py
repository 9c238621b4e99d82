"""Plain topics on a real Kafka, as their owners use them: created without us, and read by a consumer of committed records."""

import uuid
from collections.abc import Mapping

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from conversations.config import Kafka
from conversations.kafka.clients import describe_topics
from tests.support.waiting import until

PATIENCE = 40.0
NONE: Mapping[str, str] = {}


def create_topic(kafka: Kafka, topic: str, partitions: int = 1, settings: Mapping[str, str] = NONE) -> str:
    """Create a topic, and wait until the brokers know it."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1, config=dict(settings))])[topic].result(PATIENCE)
    until(lambda: describe_topics(admin, kafka, [topic])[topic] is not None, "the topic is there", PATIENCE)
    return topic


def delete_topic(kafka: Kafka, topic: str) -> None:
    """Delete a topic, and wait until the brokers do not know it any more."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.delete_topics([topic])[topic].result(PATIENCE)
    until(lambda: describe_topics(admin, kafka, [topic])[topic] is None, "the topic is gone", PATIENCE)


def committed(kafka: Kafka, topic: str) -> list[Message]:
    """Return all records of a topic that a consumer with ``isolation.level=read_committed`` gets up to the end, by partition."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    found = describe_topics(admin, kafka, [topic])[topic]
    assert found is not None
    consumer = Consumer({
        "bootstrap.servers": kafka.bootstrap, "group.id": uuid.uuid4().hex, "enable.partition.eof": True,
        "enable.auto.commit": False, "isolation.level": "read_committed",
    })  # fmt: skip
    records: list[Message] = []
    try:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(found.partitions)])
        ended: set[int] = set()
        while len(ended) < found.partitions:
            message = consumer.poll(PATIENCE)
            assert message is not None, "neither a record nor the end"
            error = message.error()
            if error is None:
                records.append(message)
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(message.partition() or 0)
    finally:
        consumer.close()
    return sorted(records, key=lambda record: (record.partition() or 0, record.offset() or 0))
