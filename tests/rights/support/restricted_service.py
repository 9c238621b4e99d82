"""The service ``clerk`` of ``tests/rules``, on a broker that checks rights. Only the clerk logs in; all other clients have all rights."""

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported at run time, not in its types
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)

from conversations import Kafka, Service, WorkerSettings
from conversations.kafka.connection import KafkaConnection
from conversations.memory.clock import SystemClock
from conversations.protocol.topics import catalog_topic, events_topic
from conversations.stores.memory import MemoryStores
from conversations.worker import Worker
from tests.rights.support.authorizing_kafka import GuardedBroker, Right
from tests.rules.support.stepped_service import SteppedService, Tally, until

OWN = (
    ("READ", "TOPIC", "queue"),
    ("READ", "TOPIC", "commands"),
    ("WRITE", "TOPIC", "commands"),
    ("READ", "TOPIC", "state"),
    ("WRITE", "TOPIC", "state"),
    ("WRITE", "TOPIC", "dead-letter"),
    ("READ", "TOPIC", "decisions"),
)


class RestrictedService(SteppedService):
    """A clerk whose workers log in. It has the rights for its own work, for events, and to send to its peers."""

    def __init__(self, broker: GuardedBroker) -> None:
        super().__init__(broker.bootstrap)
        self.broker = broker
        self.group = f"{self.kafka.namespace}.clerk"
        for right in self.rights:
            broker.grant("clerk", [right])

    @property
    def own(self) -> list[Right]:
        """Rights without which a worker does not work."""
        own = [(operation, kind, self.topic(name)) for operation, kind, name in OWN]
        return [
            *own,
            ("READ", "TOPIC", catalog_topic(self.kafka.namespace)),
            ("READ", "GROUP", self.group),
            ("WRITE", "TRANSACTIONAL_ID", f"{self.group}.*"),
        ]

    @property
    def events_right(self) -> Right:
        return "WRITE", "TOPIC", events_topic(self.kafka.namespace)

    def right_to(self, peer: str) -> Right:
        """Return the right to send to a peer."""
        return "WRITE", "TOPIC", self.topic("queue", peer)

    @property
    def rights(self) -> list[Right]:
        """All rights that the clerk gets at first."""
        return [*self.own, self.events_right, self.right_to("asker"), self.right_to("other")]

    def lose(self, *rights: Right) -> None:
        """Take rights away from the clerk."""
        self.broker.take_away("clerk", rights)

    def guarded_worker(
        self,
        settings: WorkerSettings | None = None,
        clock: SystemClock | None = None,
        service: Service[Tally] | None = None,
        *,
        tls: bool = False,
    ) -> Worker:
        """Make a worker that logs in as the clerk."""
        plain = Kafka(self.broker.guarded, namespace=self.kafka.namespace, settings=GuardedBroker.login("clerk"))
        address = self.secured("clerk") if tls else plain
        worker = Worker(
            service or self.service(), lambda: KafkaConnection(address, "clerk"), MemoryStores(), settings=settings or WorkerSettings(),
            clock=clock, namespace=address.namespace,
        )  # fmt: skip
        self.workers.append(worker)
        self._closing.callback(worker.close)
        return worker

    def secured(self, user: str) -> Kafka:
        """Return the address of this namespace for a user that logs in over TLS."""
        return self.broker.secured(user, self.kafka.namespace)

    def delete(self, topic: str) -> None:
        """Delete a topic. When this returns, the broker does not know it any more."""
        self.admin.delete_topics([topic])[topic].result()
        until(lambda: topic not in self.admin.list_topics(timeout=10).topics)

    def spoil(self, topic: str) -> None:
        """Give a topic a setting that ``apply`` corrects."""
        wrong = ConfigEntry("message.timestamp.type", "CreateTime", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[wrong])
        self.admin.incremental_alter_configs([resource])[resource].result()
