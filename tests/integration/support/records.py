"""Functions that write and read a few records, to check that a broker works."""

import uuid

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

PATIENCE = 30.0


def new_topic(bootstrap: str) -> str:
    """Create a topic for one test, and return its name."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})  # a reference keeps the client alive until the answer arrives
    (created,) = admin.create_topics([NewTopic(name, 1, 1)]).values()
    created.result(PATIENCE)
    return name


def produce_in_transaction(bootstrap: str, topic: str, *values: bytes) -> None:
    """Write values in one committed transaction."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(PATIENCE)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value)
    producer.commit_transaction(PATIENCE)


def read(bootstrap: str, topic: str, count: int) -> list[bytes]:
    """Return the first ``count`` committed values of a topic, read by a member of a KIP-848 group."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": uuid.uuid4().hex,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
        }
    )
    try:
        consumer.subscribe([topic])
        messages = consumer.consume(count, PATIENCE)
        return [message.value() or b"" for message in messages]
    finally:
        consumer.close()


def leave_open(bootstrap: str, topic: str, value: bytes) -> None:
    """Write a value in a transaction that nobody ends. Its coordinator may abort it after one second."""
    timeouts = {"transaction.timeout.ms": 1000, "message.timeout.ms": 1000}
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-open", **timeouts})
    producer.init_transactions(PATIENCE)
    producer.begin_transaction()
    producer.produce(topic, value)
    assert producer.flush(PATIENCE) == 0
