"""A service on a real Kafka whose workers the test steps one step at a time. The test writes the records of the other side itself."""

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from secrets import token_bytes
from typing import Any
from uuid import uuid4

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from pydantic import BaseModel

from conversations import Contract, Dialog, Service, WorkerSettings
from conversations.bodies import codec_of
from conversations.config import Kafka
from conversations.kafka.admin import apply
from conversations.kafka.connection import KafkaConnection
from conversations.kafka.follow import Follower
from conversations.memory.clock import SystemClock
from conversations.ports import Headers, Record, Stores
from conversations.protocol.declarations import ServiceDeclaration
from conversations.protocol.envelope import Envelope, Kind, Prefix, decode, encode
from conversations.protocol.identifiers import uuid7
from conversations.protocol.topics import events_topic, partition_of, service_topic
from conversations.scheduler import Inline
from conversations.stores.memory import MemoryStores
from conversations.worker import Worker
from tests.integration.kafka.members import delete_topics
from tests.support import waiting

PATIENCE = 40.0
"""Most seconds that a test waits for one condition."""
until = partial(waiting.until, seconds=PATIENCE, pause=0)
SECOND = 1_000_000
HOUR = 3_600 * SECOND
MORTAL = {"max.poll.interval.ms": 2500}
"""librdkafka settings of a worker that its group removes as soon as its polling thread stands still for 2.5 seconds."""


class Ask(BaseModel):
    n: int


class Answer(BaseModel):
    n: int


class Tally(BaseModel):
    count: int = 0


Handle = Callable[[Ask, Dialog[Tally]], None]
ASKING = Contract("Asking", sent_by_initiator=[Ask], sent_by_target=[Answer])


def answer(ask: Ask, dialog: Dialog[Tally]) -> None:
    """Answer a question, and count the answers in the state of the group."""
    dialog.group.state.count += 1
    dialog.send(Answer(n=ask.n))


class AheadClock(SystemClock):
    """The system's clock, moved ahead by ``ahead`` microseconds."""

    ahead = 0

    def now(self) -> int:
        return super().now() + self.ahead


class SteppedService:
    """The service "clerk", which answers the questions of "asker" and "other". Only the clerk has workers."""

    def __init__(self, bootstrap: str, partitions: int = 1) -> None:
        self.kafka = Kafka(bootstrap, namespace=f"r{uuid4().hex[:10]}")
        self.partitions = partitions
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.workers: list[Worker] = []
        self._closing = ExitStack()
        self._closing.callback(delete_topics, self.kafka)
        self._followed: dict[str, tuple[Follower, list[Record]]] = {}
        self.apply()

    def topic(self, kind: str, service: str = "clerk") -> str:
        return service_topic(self.kafka.namespace, service, kind)

    def apply(self) -> None:
        """Create the topics that are missing."""
        apply(self.kafka, [self.service().declaration()], self.partitions, 1)
        apply(self.kafka, [ServiceDeclaration("asker"), ServiceDeclaration("other")], 1, 1)

    # -- the clerk's workers --------------------------------------------------------------------------------

    def service(
        self, handle: Handle = answer, on_timer: Callable[[Dialog[Tally]], None] | None = None
    ) -> Service[Tally]:
        clerk = Service("clerk", accepts=[ASKING], state=Tally)
        clerk.on(Ask)(handle)
        if on_timer is not None:
            clerk.on_timer(ASKING)(on_timer)
        return clerk

    def worker(
        self,
        service: Service[Tally] | None = None,
        *,
        settings: WorkerSettings | None = None,
        kafka: Mapping[str, Any] | None = None,
        stores: Stores | None = None,
        clock: SystemClock | None = None,
        connection: type[KafkaConnection] = KafkaConnection,
        inline: bool = False,
    ) -> Worker:
        """Make a worker of the clerk, as a process would. It connects to Kafka at its first step.

        With ``inline`` its handlers run on the polling thread, in the middle of a step. So a handler that waits stops the polling thread.
        """
        settings = settings or WorkerSettings()
        address = Kafka(self.kafka.bootstrap, namespace=self.kafka.namespace, settings=kafka or {})
        worker = Worker(
            service or self.service(),
            lambda: connection(address, "clerk", slot=settings.slot),
            stores or MemoryStores(),
            settings=settings,
            clock=clock,
            scheduler=Inline() if inline else None,
            namespace=address.namespace,
        )
        self.workers.append(worker)
        self._closing.callback(worker.close)
        return worker

    def open(self, worker: Worker) -> Worker:
        """Step a worker until it has opened all partitions."""
        until(lambda: (worker.step(0.05), worker.ready.is_set() and len(worker.partitions) == self.partitions)[1])
        return worker

    def connection(self, slot: str | None = None) -> KafkaConnection:
        """Make a connection of the clerk that no worker uses."""
        connection = KafkaConnection(self.kafka, "clerk", slot=slot)
        self._closing.callback(connection.close)
        return connection

    def close(self) -> None:
        """Close all workers and connections, even if closing one of them fails. The process could not end while a client is open."""
        self._closing.close()

    # -- the wire ---------------------------------------------------------------------------------------------

    def append(self, kind: str, partition: int, *records: tuple[bytes, bytes, Headers | None]) -> None:
        """Append records to a topic of the clerk, outside any transaction."""
        self.append_to(self.topic(kind), partition, *records)

    def append_to(self, topic: str, partition: int, *records: tuple[bytes, bytes, Headers | None]) -> None:
        """Append records to a topic, outside any transaction."""
        producer = Producer({"bootstrap.servers": self.kafka.bootstrap})
        for key, value, headers in records:
            producer.produce(topic, value, key, partition, headers=headers)
        assert producer.flush(10) == 0

    def read(self, topic: str, *, end: bool = True) -> list[Record]:
        """Return the committed records of a topic: all records up to its end, or, with ``end=False``, the records that the reader has got so far."""
        if topic not in self._followed:
            self._followed[topic] = Follower(self.kafka, [topic]), []
            self._closing.callback(self.forget, topic)
        follower, records = self._followed[topic]
        records += follower.to_the_end(PATIENCE) if end else follower.poll(0)
        return records

    def forget(self, topic: str) -> None:
        """Close the reader of a topic. The next ``read`` begins at the start, with the partitions that the topic has then."""
        follower, _ = self._followed.pop(topic, (None, []))
        if follower is not None:
            follower.close()

    def answers(self, service: str = "asker", *, end: bool = True) -> list[int]:
        """Return the numbers of all answers in a service's queue, in order. A repeated answer is in the list as often as in the queue."""
        envelopes = [decode(record.value() or b"") for record in self.read(self.topic("queue", service), end=end)]
        return [json.loads(envelope.body)["n"] for envelope in envelopes if envelope.kind is Kind.MESSAGE]

    def answered(self, worker: Worker, *expected: int) -> None:
        """Step a worker until these answers are in the queue of ``asker``. Check that there are no other answers."""
        until(lambda: (worker.step(0.05), set(self.answers(end=False)) >= set(expected))[1])
        assert self.answers() == list(expected)

    def events(self, name: str) -> list[dict[str, Any]]:
        topic = events_topic(self.kafka.namespace)
        events = [json.loads(record.value() or b"") for record in self.read(topic)]
        return [event for event in events if event["event"] == name]


class Asking:
    """The initiator's side of one dialog with the clerk. It makes the encoded records itself."""

    def __init__(self, stepped: SteppedService, partition: int = 0, service: str = "asker") -> None:
        self.stepped, self.home = stepped, partition
        self.now = SystemClock().now()
        key = ""
        while not key or partition_of(key.encode(), stepped.partitions) != partition:
            drawn = uuid7(self.now, int.from_bytes(token_bytes(9)))
            key = str(drawn)
            self.id = drawn.bytes
        self.key = key.encode()
        self.prefix = Prefix(self.id, True, ASKING.name, service, "clerk", key, False, self.now + HOUR, -1)
        self.next = 0

    def record(self, n: int, seq: int | None = None) -> tuple[bytes, bytes, Headers | None]:
        """Make the record of the next message, or of the message with number ``seq``."""
        if seq is None:
            seq, self.next = self.next, self.next + 1
        declared = ASKING.outgoing(Ask(n=n), None, True)
        codec = codec_of(declared)
        value = encode(
            Envelope(
                self.prefix, Kind.MESSAGE, seq, -1, -1, sent_at=self.now, message_type=declared.name,
                content_type=codec.content_type, body=codec.encode(Ask(n=n)),
            )
        )  # fmt: skip
        return self.key, value, None

    def ask(self, *numbers: int) -> None:
        """Append messages to the partition that their dialog belongs to."""
        self.stepped.append("queue", self.home, *(self.record(n) for n in numbers))
