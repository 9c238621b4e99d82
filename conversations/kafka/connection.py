"""The log port on Apache Kafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from secrets import token_hex
from threading import get_ident
from typing import Literal

from conversations.config import Kafka, Periods
from conversations.errors import CutOff, InDoubt, KafkaNotReady, KafkaUnreachable, LogError
from conversations.kafka import rights
from conversations.kafka.catalog import CatalogReader
from conversations.kafka.clients import REQUEST_TIMEOUT, Admin, Topic, describe_topics, make_admin
from conversations.kafka.consumer import Inputs
from conversations.kafka.logins import is_there
from conversations.kafka.offsets import ask_offset
from conversations.kafka.restore import KafkaRestore
from conversations.kafka.standstill import Standstill
from conversations.kafka.topic_settings import Asked, verify
from conversations.kafka.transactions import Group, Transactions
from conversations.kafka.watch import Watch
from conversations.ports import ANY_SIZE, Listener, Positions, Produced, Record, Unanswered
from conversations.protocol.topics import COMMANDS, QUEUE, SERVICE_TOPICS, STATE, events_topic, service_topic
from conversations.units import SECOND

LOOK_UP = 2.0
"""Seconds a commit waits to be told about its destinations."""

UP_AND_RIGHT = "Are enough of its brokers up, and are the addresses that they advertise (advertised.listeners) right?"
"""Asked when one broker answers and requests time out: the client goes on at the addresses that it was told."""


class KafkaConnection:
    """One worker's connection to the topics of its service: a consumer, a transactional producer, an admin client.

    Only the thread that joined may poll, open, pause, commit and close. After ``InDoubt``: ``close``, forget
    everything in memory, and ``join`` again (on this object: then the broker ends what is left open at once).
    """

    def __init__(
        self,
        kafka: Kafka,
        service: str,
        *,
        slot: str | None = None,
        protocol: Literal["consumer", "classic"] = "consumer",
        periods: Periods | None = None,
        lifetime: timedelta = timedelta(0),
    ) -> None:
        """Make one; nothing is connected before it joins.

        Args:
            kafka: the cluster.
            service: whose topics.
            slot: names this worker across restarts.
            protocol: of its consumer group.
            periods: the same for all of the namespace.
            lifetime: longest that its dialogs live: its topics must keep their records for longer.
        """
        self.kafka, self.service = kafka, service
        self._protocol, self._lifetime, self._periods = protocol, lifetime, periods or Periods()
        self._group = f"{kafka.namespace}.{service}"
        # A configured slot names the same id after a restart, so that the start ends what a crash left open.
        # A dot of its own is written otherwise: slot "web.eu" of "orders" is not slot "eu" of "orders.web".
        name = slot.replace(".", "~") if slot is not None else token_hex(8)
        self._transactional_id = f"{self._group}.{name}"
        self._queue, self._commands, self._state = (
            service_topic(kafka.namespace, service, kind) for kind in (QUEUE, COMMANDS, STATE)
        )
        self._admin = Admin(kafka)
        self._catalog = CatalogReader(kafka, self._admin)
        self._inputs: Inputs | None = None
        self._transactions: Transactions | None = None
        self._watch: Watch | None = None
        self._standstill = Standstill(kafka)
        self._owner: int | None = None

    def join(self, listener: Listener) -> None:
        """Subscribe to the service's queue; partitions arrive through the listener and flow after ``open``.

        Raises:
            KafkaUnreachable: no broker answered within 10 s.
            KafkaNotReady: one answered, and the cluster cannot do it just now.
            LogError: the service's topics are missing or differ from the catalog, their settings are unsafe, or rights are
                missing.
            RuntimeError: it joined already.
        """
        if self._inputs is not None:
            raise RuntimeError(f"the connection of {self.service!r} has joined already: close it first")
        try:
            self._enter(listener)
        except KafkaUnreachable as failure:
            # A request that waits for a controller, or a coordinator, times out as it does where nobody is.
            if type(failure) is KafkaUnreachable and is_there(self.kafka):
                raise KafkaNotReady(self.kafka.bootstrap, failure.why, UP_AND_RIGHT) from failure
            raise

    def _enter(self, listener: Listener) -> None:
        self._owner = get_ident()
        topics = self._own_topics()
        self._verify_settings()
        self._watch = Watch(self.kafka, self._admin, topics, self._periods.topics_looked_at / SECOND)
        self._standstill = Standstill(self.kafka)
        inputs = Inputs(self.kafka, (self._queue, self._commands), self._group, self._protocol, self._watch.hurry)
        group = Group(self._group, self._queue, self._state, inputs.metadata, topics.keys())
        look_up = partial(self._describe, timeout=LOOK_UP, rights=True)  # in the middle of a commit: not for long
        self._transactions = Transactions(self.kafka, self._transactional_id, group, look_up)
        self._inputs = inputs
        self._transactions.start()  # before the first read: ends what an earlier process of this slot left open
        inputs.subscribe(listener)

    def poll(self, timeout: float, limit: int, size: int = ANY_SIZE) -> Sequence[Record]:
        """Return the records at hand, at most ``limit``; wait up to ``timeout`` seconds only when there are none.

        Raises:
            InputLost: an input position is out of range or its topic was re-created; names the partition.
            CutOff: there are records that do not arrive.
            LogError: the log failed, or the service's topics were changed.
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
            raise CutOff(f"Kafka has records that do not arrive, of {where}: is a leader cut off from its cluster?")
        return records

    def restore(self, partition: int, since: int | None) -> KafkaRestore:
        """Begin reading the state partition from offset ``since`` (None: its start)."""
        names = (self._group, self._queue, self._state)
        # A client of its own: an older one may still be connected to a broker that was cut off from the others.
        return KafkaRestore(self.kafka, make_admin(self.kafka), names, partition, since)

    def open(self, partition: int, positions: Positions) -> None:
        """Let the inputs of an assigned partition (queue, then commands) flow from ``positions``."""
        self._joined().open(partition, positions)

    def pause(self, partition: int, *, commands: bool = False) -> None:
        """Hold back the queue of a partition, or its commands; its other input goes on."""
        self._joined().pause(partition, commands=commands)

    def resume(self, partition: int, *, commands: bool = False) -> None:
        """Let the queue of a partition flow again, or its commands."""
        self._joined().resume(partition, commands=commands)

    def drop(self, partition: int) -> None:
        """Stop every input of a partition that stays assigned: it is set aside for a human."""
        self._joined().drop(partition)

    def commit(self, outs: Sequence[Produced], offsets: Mapping[int, int]) -> Mapping[int, int]:
        """Append ``outs`` and the queue offsets of the touched partitions in one transaction.

        Raises:
            ValueError: ``offsets`` is empty: nothing would fence the transaction.
            Fenced: this member lost a partition; aborted.
            DestinationFailed: records to the named topics cannot be written; aborted.
            Interrupted: aborted for a passing reason; commit again.
            InDoubt: the outcome is unknown, or the abort failed.
            LogError: settings or rights are wrong.
        """
        inputs, transactions = self._joined(), self._transactions
        assert transactions is not None
        try:
            return transactions.commit(outs, offsets)
        except InDoubt:
            inputs.broken = True
            raise

    def appended_at(self) -> int | None:
        """When the last commit's state was appended, as Kafka reported it; None when the state topic has its writers' times."""
        return None if self._transactions is None else self._transactions.appended_at

    def unanswered(self) -> Unanswered | None:
        """The call about its topics that nobody answers; None while calls are answered."""
        return None if self._watch is None else self._watch.unanswered

    def partitions(self, service: str) -> int | None:
        """Partition count of a service's topics from the catalog, None when the service is not known (yet)."""
        return self._catalog.partitions(service)

    def look_at_catalog(self) -> None:
        """Let ``partitions`` know everything that the catalog said when this was called.

        Raises:
            LogError: it cannot be read now.
        """
        self._catalog.read()

    def topic_ids(self) -> Mapping[str, str]:
        """Identity of the service's own queue, commands and state topics, which changes when one is re-created."""
        found = self._describe([self._queue, self._commands, self._state])
        if missing := sorted(name for name, topic in found.items() if topic is None):
            raise LogError(f"topics are missing: {', '.join(missing)}")
        return {name: topic.id for name, topic in found.items() if topic is not None}

    def existing(self, topics: Sequence[str]) -> set[str]:
        """Return the topics that exist and can be written to."""
        found = self._describe(list(topics), rights=True) if topics else {}
        return {name for name, topic in found.items() if topic is not None and topic.may("WRITE")}

    def queue_end(self, partition: int) -> int:
        """End offset of the queue partition, counting records of open transactions."""
        return self._end(self._queue, partition)

    def commands_end(self, partition: int) -> int:
        """End offset of the commands partition, counting records of open transactions."""
        return self._end(self._commands, partition)

    def _end(self, topic: str, partition: int) -> int:
        with self._admin.request() as client:
            return ask_offset(self.kafka, client, topic, partition)

    def queue_read_to(self, partition: int) -> int:
        """Offset up to which ``poll`` has given out everything, known once the end was reached; 0 before."""
        return self._joined().read_to(self._queue, partition)

    def commands_read_to(self, partition: int) -> int:
        """The same of the commands partition."""
        return self._joined().read_to(self._commands, partition)

    def close(self) -> None:
        """Leave the group, after a last ``revoked`` (``lost`` after ``InDoubt``); harmless when already closed."""
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
            raise LogError(f"this worker's user lacks rights of its service: {'; '.join(lacking)}")
        expected = self._catalog.partitions(self.service)
        if expected is None:
            raise LogError(f"service {self.service!r} is not in the catalog: run 'conversations apply' for it")
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
        topics = {name: Asked(kind, self._lifetime, self._periods) for name, kind in kinds.items()}
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
        # librdkafka's consumer methods hang behind a poll in another thread: better an error than a stall.
        if get_ident() != self._owner:
            raise RuntimeError("only the thread that joined may use the connection")
