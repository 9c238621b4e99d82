"""The log port on Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from secrets import token_hex
from threading import get_ident
from typing import Literal

from conversations.config import Kafka, Periods
from conversations.durations import SECOND
from conversations.errors import CutOff, InDoubt, KafkaNotReady, KafkaUnreachable, LogError
from conversations.kafka import rights
from conversations.kafka.catalog import CatalogReader
from conversations.kafka.clients import REQUEST_TIMEOUT, Admin, Topic, describe_topics
from conversations.kafka.consumer import Inputs
from conversations.kafka.fence import Group
from conversations.kafka.logins import is_there
from conversations.kafka.offsets import ask_offset
from conversations.kafka.restore import KafkaRestore
from conversations.kafka.standstill import Standstill
from conversations.kafka.topic_settings import Asked, verify
from conversations.kafka.transactions import Transactions
from conversations.kafka.watch import Watch
from conversations.kafka.writable_topics import fault
from conversations.ports import ANY_SIZE, Listener, Positions, Produced, Record, Unanswered, nothing
from conversations.protocol.declarations import ServiceDeclaration
from conversations.protocol.release_changes import check_program
from conversations.protocol.topics import (
    COMMANDS,
    DECISIONS,
    INPUTS,
    QUEUE,
    SERVICE_TOPICS,
    STATE,
    events_topic,
    service_topic,
)

LOOK_UP = 2.0
"""Maximum number of seconds that a commit waits for the metadata of its destinations."""

UP_AND_RIGHT = "Are enough of its brokers up, and are the addresses that they advertise (advertised.listeners) right?"
"""Question in the error if a broker answers, but requests time out. After the first answer, a client uses the advertised addresses."""


class KafkaConnection:
    """One worker's connection to the topics of its service: a consumer, a transactional producer, an admin client.

    Only the thread that joined may poll, open, pause, commit and close. After ``InDoubt``, call ``close``, forget
    everything in memory, and call ``join`` again. If this object left a transaction open, the
    broker aborts the transaction as soon as the object joins again.
    """

    def __init__(
        self,
        kafka: Kafka,
        service: str,
        *,
        slot: str | None = None,
        protocol: Literal["consumer", "classic"] = "consumer",
        periods: Periods | None = None,
        declaration: ServiceDeclaration | None = None,
    ) -> None:
        """Make a connection. Nothing connects to Kafka before ``join``.

        Args:
            kafka: the cluster and the namespace.
            service: name of the service.
            slot: the worker's slot, which stays the same across restarts; None chooses a random name.
            protocol: rebalance protocol of the consumer group.
            periods: periods of the namespace.
            declaration: the declaration of the service. Its contracts are compared with the catalog, and its topics must keep records
                longer than its longest lifetime. None for a service without declared contracts.
        """
        self.kafka, self.service = kafka, service
        self._protocol, self._periods = protocol, periods or Periods()
        self._declaration = declaration or ServiceDeclaration(service)
        self._is_compared = False
        self._group = f"{kafka.namespace}.{service}"
        # A configured slot gives the same transactional id after a restart. So the start aborts a transaction that a
        # crash left open. Dots in a slot are replaced, because slot "web.eu" of service "orders" and slot "eu" of service
        # "orders.web" must have different ids.
        name = slot.replace(".", "~") if slot is not None else token_hex(8)
        self._transactional_id = f"{self._group}.{name}"
        self._queue, self._state = (service_topic(kafka.namespace, service, kind) for kind in (QUEUE, STATE))
        self._admin = Admin(kafka)
        self._catalog = CatalogReader(kafka, self._admin)
        self._inputs: Inputs | None = None
        self._transactions: Transactions | None = None
        self._watch: Watch | None = None
        self._standstill = Standstill(kafka)
        self._owner: int | None = None

    def join(self, listener: Listener) -> None:
        """Subscribe to the service's queue. The listener gets the assigned partitions. The method ``open`` starts reading a partition.

        Raises:
            KafkaUnreachable: no broker answered within 10 s.
            KafkaNotReady: a broker answered, but the cluster is not ready.
            LogError: the service's topics are missing or differ from the catalog, their settings are unsafe, or rights are
                missing.
            DeclarationError: the service in the catalog belongs to another program.
            RuntimeError: this connection has joined already.
        """
        if self._inputs is not None:
            raise RuntimeError(f"the connection of {self.service!r} has joined already: close it first")
        try:
            self._enter(listener)
        except KafkaUnreachable as failure:
            # A time-out has two possible causes: no broker answers, or the cluster has no controller or coordinator now.
            if type(failure) is KafkaUnreachable and is_there(self.kafka):
                raise KafkaNotReady(self.kafka.bootstrap, failure.why, UP_AND_RIGHT) from failure
            raise

    def _enter(self, listener: Listener) -> None:
        self._owner = get_ident()
        topics = self._own_topics()
        self._verify_settings()
        self._watch = Watch(self.kafka, self._admin, topics, self._periods.topics_looked_at / SECOND)
        self._standstill = Standstill(self.kafka)
        read = self._topic_of(QUEUE), self._topic_of(COMMANDS), self._topic_of(DECISIONS)
        inputs = Inputs(self.kafka, read, self._group, self._protocol, self._watch.hurry)
        group = Group(self._group, self._queue, self._state, inputs.metadata, topics.keys())
        look_up = partial(self._describe, timeout=LOOK_UP, rights=True)  # short, because a commit waits for it
        self._transactions = Transactions(self.kafka, self._transactional_id, group, look_up)
        self._inputs = inputs
        self._transactions.start()  # before the first read: aborts the transaction that an earlier process of this slot left open
        inputs.subscribe(listener)

    def poll(self, timeout: float, limit: int, size: int = ANY_SIZE) -> Sequence[Record]:
        """Return the records that have arrived, at most ``limit``. If there are none, wait up to ``timeout`` seconds.

        Raises:
            InputLost: an input's position is out of range or its topic was re-created. The exception names the partition.
            CutOff: Kafka has records that do not arrive here.
            LogError: reading failed, or the service's topics were changed.
        """
        inputs = self._joined()
        watch = self._watch
        assert watch is not None
        if watch.due() and (changed := watch.look(inputs.open_partitions)) is not None:
            inputs.fail(changed)
            if self._transactions is not None:
                self._transactions.forget_topics()
        records = inputs.poll(timeout, limit, size)
        if not records and (standstill := self._standstill).due() and (still := standstill.look(inputs.positions())):
            inputs.broken = True
            where = ", ".join(f"{topic} partition {partition}" for topic, partition in sorted(still))
            raise CutOff(f"Kafka has records of {where} that do not arrive: is a leader cut off from its cluster?")
        return records

    def restore(self, partition: int, since: int | None) -> KafkaRestore:
        """Begin to read the state partition at offset ``since``, or at its start if ``since`` is None."""
        names = (self._group, self._queue, self._state)
        return KafkaRestore(self.kafka, names, partition, since)

    def open(self, partition: int, positions: Positions) -> None:
        """Start reading the inputs of an assigned partition from ``positions``."""
        self._joined().open(partition, positions)

    def pause(self, partition: int, kind: str = QUEUE) -> None:
        """Pause one input of a partition. The other inputs are still read."""
        self._joined().pause(partition, kind)

    def resume(self, partition: int, kind: str = QUEUE) -> None:
        """Resume one input of a partition."""
        self._joined().resume(partition, kind)

    def drop(self, partition: int) -> None:
        """Stop reading all inputs of a partition that is set aside until a person acts. The partition stays assigned."""
        self._joined().drop(partition)

    def commit(
        self, outs: Sequence[Produced], offsets: Mapping[int, int], meanwhile: Callable[[], None] = nothing
    ) -> Mapping[int, int]:
        """Append ``outs`` and commit the queue positions in ``offsets``, in one transaction.

        Raises:
            ValueError: ``offsets`` is empty, so nothing would fence the transaction.
            Fenced: this member lost a partition. The transaction was aborted.
            DestinationFailed: topics or single records cannot be written. The exception names them. The transaction was aborted.
            Interrupted: the transaction was aborted for a passing reason. Commit again.
            InDoubt: the outcome is unknown, or the abort failed.
            LogError: settings or rights are wrong.
        """
        inputs, transactions = self._joined(), self._transactions
        assert transactions is not None
        try:
            return transactions.commit(outs, offsets, meanwhile)
        except InDoubt:
            inputs.broken = True
            raise

    def appended_at(self) -> int | None:
        """Return the LogAppendTime of a state record of the last commit, in microseconds.

        Return None if the last commit had no state record, or if the state topic uses CreateTime.
        """
        return None if self._transactions is None else self._transactions.appended_at

    def unanswered(self) -> Unanswered | None:
        """Return the check of the service's topics that no broker answered, or None if brokers answer."""
        return None if self._watch is None else self._watch.unanswered

    def partitions(self, service: str) -> int | None:
        """Return the partition count of a service's topics, or None if the catalog does not name the service (yet)."""
        return self._catalog.partitions(service)

    def cluster(self, service: str) -> str:
        """Return the name of the cluster on which a service lives, as ``partitions`` last found it; empty for this cluster."""
        return self._catalog.cluster(service)

    def look_at_catalog(self) -> None:
        """Read the catalog up to its present end. ``partitions`` uses the result.

        Raises:
            LogError: the catalog cannot be read now.
        """
        self._catalog.read()

    def schemas(self) -> Mapping[str, str]:
        """Return the Avro schemas of the catalog as it was last read, by their fingerprints."""
        return self._catalog.schemas

    def topic_ids(self) -> Mapping[str, str]:
        """Return the topic ids of the service's inputs and of its state topic. A re-created topic has another id."""
        found = self._describe([self._topic_of(kind) for kind in (*INPUTS, STATE)])
        if missing := sorted(name for name, topic in found.items() if topic is None):
            raise LogError(f"topics are missing: {', '.join(missing)}")
        return {name: topic.id for name, topic in found.items() if topic is not None}

    def unwritable(self, topics: Sequence[str]) -> dict[str, str]:
        """Return the topics that cannot be written to, each with the reason."""
        found = self._describe(list(topics), rights=True) if topics else {}
        return {name: why for name, topic in found.items() if (why := fault(name, topic))}

    def end(self, kind: str, partition: int) -> int:
        """Return the end offset of one input of a partition. It is after all records, also after records of open transactions."""
        return ask_offset(self.kafka, self._topic_of(kind), partition)

    def _topic_of(self, kind: str) -> str:
        return service_topic(self.kafka.namespace, self.service, kind)

    def read_to(self, kind: str, partition: int) -> int:
        """Return the offset at which ``poll`` last reached the end of one input of a partition.

        ``poll`` has returned every record before this offset. The offset is 0 until ``poll`` first reaches the end
        after ``open``.
        """
        return self._joined().read_to(kind, partition)

    def queue_seen(self, partition: int) -> tuple[int, int] | None:
        """Return the end of the queue partition as the last reads told it, and where ``poll`` last reached it; None if it is not known."""
        inputs = self._inputs
        end = None if inputs is None else inputs.queue_ends.get(partition)
        return None if inputs is None or end is None else (end, inputs.read_to(QUEUE, partition))

    def close(self) -> None:
        """Call the listener's ``revoked``, or ``lost`` after ``InDoubt``. Then leave the group. A repeated call has no effect."""
        inputs, transactions = self._inputs, self._transactions
        if inputs is not None:
            self._check_thread()
            try:
                inputs.close()
            finally:
                self._inputs = self._transactions = None
                if transactions is not None:
                    transactions.close()

    def _own_topics(self) -> dict[str, Topic]:
        names = [service_topic(self.kafka.namespace, self.service, kind) for kind in SERVICE_TOPICS]
        found = self._describe(names, rights=True)
        topics = {name: topic for name, topic in found.items() if topic is not None}
        if missing := sorted(set(names) - topics.keys()):
            raise LogError(f"topics are missing: {', '.join(missing)}; run 'conversations apply' for {self.service}")
        if lacking := rights.missing(topics):
            raise LogError(f"this worker's user lacks rights on its service's topics: {'; '.join(lacking)}")
        expected = self._catalog.partitions(self.service)
        if expected is None:
            raise LogError(f"service {self.service!r} is not in the catalog: run 'conversations apply' for it")
        if not self._is_compared:  # a worker that works goes on when it joins again, whatever was applied meanwhile
            check_program(self._catalog.entry(self.service), self._declaration)
            self._is_compared = True
        for name, topic in topics.items():
            if topic.partitions != expected:
                raise LogError(
                    f"{name} has {topic.partitions} partitions, the catalog says {expected}: keys no longer find "
                    "their partition; re-create the topic with the old count"
                )
        return topics

    def _verify_settings(self) -> None:
        kinds = {service_topic(self.kafka.namespace, self.service, kind): kind for kind in SERVICE_TOPICS}
        kinds[events_topic(self.kafka.namespace)] = "events"
        topics = {name: Asked(kind, self._declaration.lifetime, self._periods) for name, kind in kinds.items()}
        with self._admin.request() as client:
            verify(client, self.kafka, topics)

    def _describe(
        self, names: list[str], timeout: float = REQUEST_TIMEOUT, *, rights: bool = False
    ) -> dict[str, Topic | None]:
        with self._admin.request() as client:
            return describe_topics(client, self.kafka, names, timeout, rights=rights)

    def _joined(self) -> Inputs:
        if self._inputs is None:
            raise LogError(f"the connection of {self.service!r} is closed: join first")
        self._check_thread()
        return self._inputs

    def _check_thread(self) -> None:
        # librdkafka's consumer methods hang while another thread polls. An error is better than a hang.
        if get_ident() != self._owner:
            raise RuntimeError("only the thread that joined may use the connection")
