"""Reads the rows of conversation groups from the state topic of a service, for readers outside its workers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock

from conversations.config import Kafka, Periods
from conversations.durations import SECOND
from conversations.errors import DeclarationError
from conversations.kafka.catalog import CatalogReader
from conversations.kafka.clients import Admin
from conversations.kafka.offsets import ask_offset
from conversations.kafka.restore import read_all
from conversations.protocol import rows
from conversations.protocol.topics import STATE, partition_of, service_topic

PATIENCE = 30.0
"""Seconds without progress after which a reading fails."""


@dataclass
class _Partition:
    """The group rows of one state partition, as they were last read."""

    next_offset: int = 0
    read_at: float = 0.0
    """Time of the last reading, by ``time.monotonic``."""
    groups: dict[bytes, bytes] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def forget(self) -> None:
        """Begin again at the start of the partition with the next reading."""
        self.next_offset, self.groups = 0, {}

    def take(self, found: Sequence[tuple[bytes, bytes | None]], next_offset: int) -> None:
        """Take up the rows that were read, in order."""
        for key, value in found:
            if not key.startswith(rows.GROUP):
                continue
            if value is None:
                self.groups.pop(key, None)
            else:
                self.groups[key] = value
        self.next_offset, self.read_at = next_offset, time.monotonic()


class GroupStates:
    """The group rows of one service, read from Kafka. It is thread-safe.

    The first reading of a partition reads all its rows, and keeps the rows of its groups in memory. Each later reading reads the new rows.
    Kafka removes the mark of a deleted row after ``Periods.deletes_kept``. So a partition that was not read for half of this period is read
    from its start again, and so is a topic that is shorter than before, because it was made anew.
    """

    def __init__(self, kafka: Kafka, service: str, periods: Periods) -> None:
        self._kafka, self._service = kafka, service
        self._fresh_for = periods.deletes_kept / 2 / SECOND
        self._topic = service_topic(kafka.namespace, service, STATE)
        self._admin = Admin(kafka)
        self._catalog = CatalogReader(kafka, self._admin)
        self._partitions: dict[int, _Partition] = {}

    def read(self, key: str, names: list[bytes]) -> tuple[list[bytes], int]:
        """Return the rows of ``names`` that exist, in this order, and the time of the reading in microseconds since 1970.

        Every transaction that was committed before this time is in the rows. ``key`` is the key of the group.

        Raises:
            DeclarationError: the catalog does not name the service.
            KafkaUnreachable: no broker answered.
            LogError: the state topic cannot be read.
        """
        count = self._catalog.partitions(self._service)
        if count is None:
            raise DeclarationError(f"service {self._service!r} is not in the catalog: run 'conversations apply' for it")
        number = partition_of(key.encode(), count)
        partition = self._partitions.setdefault(number, _Partition())
        with partition.lock:
            as_of = time.time_ns() // 1_000
            self._read_on(number, partition)
            return [partition.groups[name] for name in names if name in partition.groups], as_of

    def _read_on(self, number: int, partition: _Partition) -> None:
        if time.monotonic() - partition.read_at > self._fresh_for:
            partition.forget()
        with self._admin.request() as client:
            end = ask_offset(self._kafka, client, self._topic, number, timeout=PATIENCE)
            if end < partition.next_offset:
                partition.forget()
            found = read_all(self._kafka, client, self._topic, partition.next_offset, PATIENCE, number)
        partition.take(*found)
