"""The messages in the queues of a namespace, read with the code of the chaos runs' checker and without the product's decoders."""

from __future__ import annotations

from typing import Any, NamedTuple
from uuid import UUID

from confluent_kafka import Consumer, TopicPartition

from conversations.config import Kafka
from tests.chaos.checker import avro
from tests.chaos.checker.partitions import partition_of


class Message(NamedTuple):
    """One message, END or ERROR of a queue."""

    conversation: str
    to_target: bool
    number: int
    """-1 for an ERROR without a number."""
    kind: str
    body: bytes


def messages_of(kafka: Kafka, services: list[str], partitions: int) -> set[Message]:
    """Read the queues of services to their ends. If several records have the same number, the first counts."""
    found: dict[tuple[str, bool, int, str], Message] = {}
    consumer = Consumer({
        "bootstrap.servers": kafka.bootstrap, "group.id": "expected", "isolation.level": "read_committed",
        "enable.auto.commit": False, "enable.partition.eof": True,
    })  # fmt: skip
    places = [(service, number) for service in services for number in range(partitions)]
    consumer.assign([TopicPartition(f"{kafka.namespace}.{service}.queue", number, 0) for service, number in places])
    ended = 0
    while ended < len(places):
        record = consumer.poll(30)
        assert record is not None
        if record.error():
            ended += 1
            continue
        fields = _message(record, partitions)
        if fields is not None:
            name = str(UUID(bytes=fields["conversation_id"]))
            key = name, fields["from_initiator"], fields["seq"], fields["kind"]
            found.setdefault(key, Message(*key, fields["body"]))
    consumer.close()
    return set(found.values())


def _message(record: Any, partitions: int) -> dict[str, Any] | None:
    try:
        fields = avro.ENVELOPE.decode(record.value() or b"")
    except avro.Undecodable:
        return None
    service = record.topic().rpartition(".")[0].rpartition(".")[2]
    right = fields["to_service"] == service
    placed = partition_of(record.key() or b"", partitions) == record.partition()
    return fields if right and placed and fields["kind"] in {"MESSAGE", "END", "ERROR"} else None
