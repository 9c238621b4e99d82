"""A Kafka in one process: topics, a consumer group per service, transactions, LogAppendTime."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Protocol
from uuid import uuid4

from conversations.errors import DestinationFailed, Fenced
from conversations.ports import Clock, Headers, Out, Produced
from conversations.protocol.topics import (
    DEFAULT_NAMESPACE,
    QUEUE,
    SERVICE_TOPICS,
    events_topic,
    partition_of,
    service_topic,
)


class MemoryRecord:
    """One record; the methods are those of a confluent-kafka message."""

    __slots__ = ("_at", "_headers", "_key", "_offset", "_partition", "_topic", "_value", "visible")

    def __init__(self, topic: str, partition: int, offset: int, at: int, out: Out, visible: bool = True) -> None:
        self._topic = topic
        self._partition = partition
        self._offset = offset
        self._at = at
        self._key = out.key
        self._value = out.value
        self._headers = out.headers
        self.visible = visible
        """False for a record of an aborted transaction: it takes an offset and is never delivered."""

    def topic(self) -> str:
        """Topic name."""
        return self._topic

    def partition(self) -> int:
        """Partition number."""
        return self._partition

    def offset(self) -> int:
        """Offset in the partition."""
        return self._offset

    def key(self) -> bytes | None:
        """Key, if any."""
        return self._key

    def value(self) -> bytes | None:
        """Value, None for a deletion."""
        return self._value

    def headers(self) -> Headers | None:
        """Headers, if any."""
        return self._headers

    def timestamp(self) -> tuple[int, int]:
        """(2, LogAppendTime in milliseconds)."""
        return 2, self._at // 1_000


class Member(Protocol):
    """A consumer of a group."""

    owned: set[int]


class Group:
    """The members of one service's consumer group and who owns which queue partition."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.members: list[Member] = []
        self.owners: dict[int, Member] = {}
        self.offsets: dict[int, int] = {}

    def target(self, member: Member) -> set[int]:
        """Partitions the member should own, dealt out in ranges."""
        if member not in self.members:
            return set()
        index, count = self.members.index(member), len(self.members)
        return set(range(self.partitions * index // count, self.partitions * (index + 1) // count))

    def to_revoke(self, member: Member) -> list[int]:
        """Partitions the member owns and should give up."""
        return sorted(p for p, owner in self.owners.items() if owner is member and p not in self.target(member))

    def to_assign(self, member: Member) -> list[int]:
        """Partitions nobody owns that the member should take."""
        return sorted(p for p in self.target(member) if p not in self.owners)

    def release(self, member: Member) -> None:
        """Take a member and what it owns out of the group."""
        if member in self.members:
            self.members.remove(member)
        self.owners = {p: owner for p, owner in self.owners.items() if owner is not member}


class MemoryBroker:
    """All topics of one namespace. Thread-safe: every access holds ``changed``."""

    def __init__(self, clock: Clock, namespace: str = DEFAULT_NAMESPACE) -> None:
        self.clock = clock
        self.namespace = namespace
        self.changed = threading.Condition(threading.RLock())
        self.topics: dict[str, list[list[MemoryRecord]]] = {events_topic(namespace): [[]]}
        self.ids: dict[str, str] = {}
        self.services: dict[str, int] = {}
        self.groups: dict[str, Group] = {}

    def create_service(self, service: str, partitions: int) -> None:
        """Create the topics of a service; harmless when they are there."""
        with self.changed:
            if service in self.services:
                return
            for kind in SERVICE_TOPICS:
                name = service_topic(self.namespace, service, kind)
                self.topics[name] = [[] for _ in range(partitions)]
                self.ids[name] = uuid4().hex
            self.services[service] = partitions
            self.groups[service] = Group(partitions)

    def append(self, out: Out, visible: bool = True) -> int:
        """Append one record outside any transaction and return its offset.

        Raises:
            DestinationFailed: no such topic or partition.
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
        """Append to a topic of a service, to the partition of the key."""
        partition = partition_of(key, self.services[service])
        self.append(Out(service_topic(self.namespace, service, kind), partition, key, value, headers))

    def commit(
        self, service: str, member: Member, outs: Sequence[Produced], offsets: Mapping[int, int]
    ) -> dict[int, int]:
        """Append and move the group's offsets together.

        Raises:
            ValueError: no offsets: nothing would fence this commit.
            Fenced: the member does not own a partition any more.
            DestinationFailed: a topic or partition is missing; nothing is visible.
        """
        if not offsets:
            raise ValueError("a commit without offsets is not fenced")
        with self.changed:
            group = self.groups[service]
            if any(group.owners.get(partition) is not member for partition in offsets):
                raise Fenced("another member owns the partition")
            missing = {
                out[0]: "unknown topic or partition" for out in outs if out[1] >= len(self.topics.get(out[0], ()))
            }
            for out in outs:
                if out[0] not in missing:
                    self.append(Out(*out), visible=not missing)
            if missing:
                raise DestinationFailed(missing)
            group.offsets.update(offsets)
            state = service_topic(self.namespace, service, "state")
            touched = {out[1] for out in outs if out[0] == state}
            return {partition: len(self.topics[state][partition]) for partition in touched}

    def queue(self, service: str) -> list[list[MemoryRecord]]:
        """Return the queue topic of a service, by partition."""
        return self.topics[service_topic(self.namespace, service, QUEUE)]
