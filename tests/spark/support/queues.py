"""Queues with valid and invalid records that a test writes itself."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any
from uuid import UUID, uuid4

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported at run time, not in its types
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)
from pydantic import BaseModel

from conversations import Contract
from conversations.config import Kafka
from conversations.kafka.admin import apply
from conversations.protocol.declarations import ServiceDeclaration
from conversations.protocol.envelope import Envelope, Kind, Prefix, encode
from conversations.protocol.topics import partition_of

PARTITIONS = 3
HOUR = 3_600_000_000


class Ask(BaseModel):
    name: str
    amount: int | None = None


class Answer(BaseModel):
    text: str


LOANS = Contract("Loans", sent_by_initiator=[Ask], sent_by_target=[Answer])


class Queues:
    """The queues of the services ``loans`` and ``web``, which talk under the contract ``Loans``."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        said = {"Loans": {"initiator": ["Ask"], "target": ["Answer"]}}
        services = [ServiceDeclaration("loans", accepts=said), ServiceDeclaration("web", initiates=said)]
        apply(kafka, services, PARTITIONS, 1)
        self._producer = Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": 0})

    def put(self, service: str, value: bytes | None, key: bytes | None, headers: Any, partition: int) -> None:
        """Append one record with any content."""
        self._put(service, value, key, headers, partition)
        assert self._producer.flush(30) == 0

    def say(self, envelope: Envelope, *, astray: int = 0, service: str = "") -> None:
        """Append an envelope as its sender does. The arguments may change its partition or the service whose queue gets it."""
        self.say_all([envelope], astray=astray, service=service)

    def say_all(
        self,
        envelopes: Iterable[Envelope],
        *,
        astray: int = 0,
        service: str = "",
        at: int = 0,
    ) -> None:
        """Append envelopes, in their order. ``at`` is the time of the records, in milliseconds; it counts only after ``let_records_say_when``."""
        for envelope in envelopes:
            value = encode(envelope)
            key = str(UUID(bytes=envelope.prefix.conversation_id)).encode()
            partition = (partition_of(key, PARTITIONS) + astray) % PARTITIONS
            self._put(service or envelope.prefix.to_service, value, key, [("other", b"x")], partition, at)
        assert self._producer.flush(30) == 0

    def drop_all(self, service: str) -> None:
        """Let Kafka delete all records of a queue, as it does after the retention time."""
        places = [
            TopicPartition(f"{self._kafka.namespace}.{service}.queue", number, -1) for number in range(PARTITIONS)
        ]
        admin = AdminClient({"bootstrap.servers": self._kafka.bootstrap})
        for future in admin.delete_records(places).values():
            future.result()

    def let_records_say_when(self, service: str) -> None:
        """Let a queue accept the times of its producers, even very old ones. Queues of the product use LogAppendTime."""
        queue = ConfigResource(ConfigResource.Type.TOPIC, f"{self._kafka.namespace}.{service}.queue")
        for name, value in (("message.timestamp.type", "CreateTime"), ("retention.ms", "-1")):
            queue.add_incremental_config(ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET))
        admin = AdminClient({"bootstrap.servers": self._kafka.bootstrap})
        for future in admin.incremental_alter_configs([queue]).values():
            future.result()

    def _put(
        self, service: str, value: bytes | None, key: bytes | None, headers: Any, partition: int, at: int = 0
    ) -> None:
        topic = f"{self._kafka.namespace}.{service}.queue"
        while True:
            try:
                self._producer.produce(topic, value, key, partition, headers=headers, timestamp=at)
                return
            except BufferError:
                self._producer.poll(1)


class Talk:
    """The envelopes of one dialog that ``web`` begins with ``loans``."""

    def __init__(self) -> None:
        self.id = uuid4()
        self.now = time.time_ns() // 1_000

    def prefix(self, *, to_target: bool = True) -> Prefix:
        there, back = ("web", "loans") if to_target else ("loans", "web")
        return Prefix(
            self.id.bytes, to_target, "Loans", there, back, str(self.id), False, self.now + HOUR, -1
        )  # fmt: skip

    def ask(self, number: int, body: bytes | None = None) -> Envelope:
        """Return a message to ``loans``. The name in its body is its number."""
        content = Ask(name=str(number)).model_dump_json().encode() if body is None else body
        return self._message(number, "Ask", content, to_target=True)

    def answer(self, number: int) -> Envelope:
        """Return a message to ``web``."""
        return self._message(number, "Answer", Answer(text=str(number)).model_dump_json().encode(), to_target=False)

    def end(self, number: int) -> Envelope:
        """Return the END of the side of ``web``."""
        return Envelope(self.prefix(), Kind.END, number, -1, number, sent_at=self.now)

    def error(self, number: int, code: int) -> Envelope:
        """Return an ERROR from ``loans``."""
        return Envelope(
            self.prefix(to_target=False), Kind.ERROR, number, -1, max(number, 0), sent_at=self.now, code=code,
            description="no",
        )  # fmt: skip

    def acknowledgement(self, number: int) -> Envelope:
        """Return an ACK from ``loans``, which is not a message."""
        return Envelope(self.prefix(to_target=False), Kind.ACK, -1, number, sent_at=self.now)

    def _message(self, number: int, name: str, content: bytes, *, to_target: bool) -> Envelope:
        return Envelope(
            self.prefix(to_target=to_target), Kind.MESSAGE, number, -1, sent_at=self.now, message_type=name,
            content_type="application/json", body=content,
        )  # fmt: skip
