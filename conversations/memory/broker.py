"""A Kafka in one process: topics, a consumer group per service, transactions, LogAppendTime.

As on Kafka, a transaction's records get their offsets when they are produced. No reader of committed records reads past the
first record of an open transaction (the last stable offset). A marker follows when the transaction is decided. The
offsets of a transaction fence the transaction, because they are refused if the epoch of the member is old.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from uuid import uuid4

from conversations.errors import DestinationFailed, Fenced, RefusedRecord
from conversations.memory.group import Group, Member
from conversations.memory.record import MemoryRecord
from conversations.memory.transactions import OpenTransactions, Transaction
from conversations.ports import Clock, Headers, Out, Produced
from conversations.protocol.topics import (
    ANY_PARTITION,
    DEFAULT_NAMESPACE,
    QUEUE,
    SERVICE_TOPICS,
    STATE,
    events_topic,
    partition_of,
    retry_topic,
    service_topic,
    transmission_topic,
)

END = 1 << 62
"""An offset after every record."""
RECORD_BYTES = 2_000_000
"""Maximum number of bytes of one record of a transaction: the limit of workers' producers on Kafka."""


def _size(out: Produced) -> int:
    _, _, key, value, headers = out
    return len(key or b"") + len(value or b"") + sum(len(name) + len(content) for name, content in headers or ())


def _check(out: Produced, *, is_own: bool) -> None:
    """Raise for a record that the client for Kafka would refuse, misunderstand or crash on.

    ``is_own`` is True for a topic of the namespace. Only a record for another topic may leave its partition to the client.

    Raises:
        TypeError, ValueError: a field has a wrong type, a partition number is impossible, or a name cannot be encoded as UTF-8.
    """
    topic, partition, *rest, headers = out
    for what in rest:
        if not isinstance(what, bytes | None):
            raise TypeError(f"a record has bytes for a key and a value, not {type(what)}")
    if not 0 <= partition < 1 << 31 and (is_own or partition != ANY_PARTITION):
        raise ValueError(
            f"{partition} is no partition number: the client for Kafka would choose a partition itself, or fail"
        )
    topic.encode()
    for name, content in headers or ():
        name.encode()
        len(memoryview(content))


class MemoryBroker:
    """All topics of one namespace. It is thread-safe, because every access holds ``changed``."""

    def __init__(self, clock: Clock, namespace: str = DEFAULT_NAMESPACE) -> None:
        self.clock = clock
        self.namespace = namespace
        self.changed = threading.Condition(threading.RLock())
        self.topics: dict[str, list[list[MemoryRecord]]] = {events_topic(namespace): [[]]}
        self.ids: dict[str, str] = {}
        self.services: dict[str, int] = {}
        self.routes: dict[str, tuple[str, int]] = {}
        """For each service on another cluster, the name of the cluster and the partition count of the transmission topic to it."""
        self.schemas: dict[str, str] = {}
        """Avro schemas of the catalog as JSON, by fingerprint in hex."""
        self.groups: dict[str, Group] = {}
        self.limits: dict[str, int] = {}
        """Maximum number of bytes of a record, for topics with a lower limit than ``RECORD_BYTES``."""
        self.forbidden: set[str] = set()
        """Topics to which the right to write is missing."""
        self.fed: dict[tuple[str, str], list[int]] = {}
        """By service and plain topic: for each partition, the offset of the next record that begins a dialog."""
        self._open = OpenTransactions()

    def create_service(self, service: str, partitions: int, retries: Sequence[str] = ()) -> None:
        """Create the topics of a service. Topics that exist are left alone. ``retries`` are the delays in the names of retry topics."""
        with self.changed:
            for delay in retries:
                topic = retry_topic(self.namespace, service, delay)
                self.topics.setdefault(topic, [[] for _ in range(self.services.get(service, partitions))])
            if service in self.services:
                return
            for kind in SERVICE_TOPICS:
                name = service_topic(self.namespace, service, kind)
                self.topics[name] = [[] for _ in range(partitions)]
                self.ids[name] = uuid4().hex
            self.services[service] = partitions
            self.groups[service] = Group(partitions)

    def add_route(self, service: str, cluster: str, partitions: int) -> None:
        """Let a service live on another cluster, and create the transmission topic to it, if it does not exist."""
        with self.changed:
            self.create_topic(transmission_topic(self.namespace, cluster), partitions)
            self.routes[service] = cluster, partitions

    def known(self) -> dict[str, int]:
        """Return the services of this cluster and those with a route. The values are the partition counts of their queues, or of the way to them."""
        return self.services | {service: count for service, (_, count) in self.routes.items()}

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a plain topic, if it does not exist."""
        with self.changed:
            self.topics.setdefault(topic, [[] for _ in range(partitions)])

    def placed(self, produced: Produced) -> Out:
        """Return a record with its partition, which Kafka's default partitioner chooses if the record has none. Its topic must exist.

        Records without a key are spread over the partitions.
        """
        out = Out(*produced)
        if out.partition != ANY_PARTITION:
            return out
        log = self.topics[out.topic]
        place = sum(map(len, log)) % len(log) if out.key is None else partition_of(out.key, len(log))
        return out._replace(partition=place)

    def append(self, out: Out, visible: bool = True) -> int:
        """Append one record outside any transaction and return its offset.

        Raises:
            DestinationFailed: the topic or the partition does not exist.
        """
        with self.changed:
            log = self.topics.get(out.topic)
            if log is None or out.partition >= len(log):
                raise DestinationFailed({out.topic: "unknown topic or partition"})
            records = log[out.partition]
            offset = len(records)
            records.append(MemoryRecord(out.topic, out.partition, offset, self.clock.now(), out, visible))
            self.changed.notify_all()
            return offset

    def append_keyed(self, service: str, kind: str, key: bytes, value: bytes, headers: Headers | None = None) -> None:
        """Append a record to a topic of a service, in the partition of its key."""
        partition = partition_of(key, self.services[service])
        self.append(Out(service_topic(self.namespace, service, kind), partition, key, value, headers))

    # -- transactions ---------------------------------------------------------------------------------------

    def missing(self, outs: Sequence[Produced]) -> dict[str, str]:
        """Return the topics that cannot accept these records, with the reasons."""
        missing = {
            out[0]: "unknown topic or partition" for out in outs if max(out[1], 0) >= len(self.topics.get(out[0], ()))
        }
        return missing | {out[0]: f"WRITE on topic {out[0]} is missing" for out in outs if out[0] in self.forbidden}

    def refused(self, outs: Sequence[Produced]) -> dict[int, RefusedRecord]:
        """Return the refusal of the first record that is too large for its topic, by the record's index. Kafka, too, reports only one."""
        for at, out in enumerate(outs):
            if _size(out) > self.limits.get(out[0], RECORD_BYTES):
                return {at: RefusedRecord(out[0], "the record is too large", too_large=True)}
        return {}

    def produce(self, transaction: Transaction, outs: Sequence[Produced]) -> None:
        """Append records that no reader sees before the transaction is committed.

        Raises:
            DestinationFailed: a topic, a partition or a right is missing, or a record is too large. The transaction is aborted.
        """
        for produced in outs:
            _check(produced, is_own=produced[0].startswith(f"{self.namespace}."))
        with self.changed:
            missing = self.missing(outs)
            refused = {} if missing else self.refused(outs)
            for at, produced in enumerate(outs):
                if produced[0] not in missing and at not in refused:
                    out = self.placed(produced)
                    offset = self.append(out, visible=False)
                    self._open.add(transaction, self.topics[out.topic][out.partition][offset])
            if missing or refused:
                self.finish(transaction, commit=False)
                raise DestinationFailed(missing, forbidden=self.forbidden & missing.keys(), records=refused)

    def send_offsets(self, transaction: Transaction, member: Member, offsets: Mapping[int, int]) -> None:
        """Add queue positions of the group to the transaction.

        Raises:
            ValueError: there are no offsets, so nothing would fence this commit.
            Fenced: the member has left the group, or its epoch is old. The transaction is aborted.
        """
        if not offsets:
            raise ValueError("a commit without offsets is not fenced")
        with self.changed:
            group = self.groups[transaction.service]
            if not group.knows(member):
                self.finish(transaction, commit=False)
                raise Fenced("another member may own the partition: the epoch is not the group's")
            transaction.offsets.update(offsets)
            for partition in offsets:
                group.pending.setdefault(partition, []).append(transaction)

    def finish(self, transaction: Transaction, *, commit: bool) -> dict[int, int]:
        """Commit or abort a transaction. Return the next offset of each state partition that the transaction wrote to."""
        with self.changed:
            group = self.groups[transaction.service]
            for partition, offset in transaction.offsets.items():
                group.pending[partition].remove(transaction)
                if commit:
                    group.offsets[partition] = offset
            self._open.remove(transaction)
            if commit:
                for record in transaction.records:
                    record.visible = True
            for topic, partition in transaction.first:
                if topic in self.topics:
                    self.append(Out(topic, partition, None, None), visible=False)  # the marker
            state = service_topic(self.namespace, transaction.service, STATE)
            return {r.partition(): r.offset() + 1 for r in transaction.records if r.topic() == state}

    def commit(
        self, service: str, member: Member, outs: Sequence[Produced], offsets: Mapping[int, int]
    ) -> dict[int, int]:
        """Append records and commit offsets of the group, in one transaction.

        Raises:
            ValueError: there are no offsets, so nothing would fence this commit.
            Fenced: the member lost a partition. No record is visible.
            DestinationFailed: a topic, a partition or a right is missing, or a record is too large. No record is visible.
        """
        if not offsets:
            raise ValueError("a commit without offsets is not fenced")
        with self.changed:
            transaction = Transaction(service)
            self.produce(transaction, outs)
            self.send_offsets(transaction, member, offsets)
            return self.finish(transaction, commit=True)

    def stable_end(self, topic: str, partition: int) -> int:
        """Return the offset before which readers of committed records may read; ``END`` if no transaction is open."""
        first = self._open.first_offset(topic, partition)
        return END if first is None else first

    def queue(self, service: str) -> list[list[MemoryRecord]]:
        """Return the queue topic of a service, by partition."""
        return self.topics[service_topic(self.namespace, service, QUEUE)]
