"""Reads the rows of conversation groups from the state topic of a service, for readers outside its workers."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from threading import Lock

from conversations.config import Kafka
from conversations.errors import DeclarationError, LogError
from conversations.kafka.catalog import CatalogReader
from conversations.kafka.clients import Admin
from conversations.kafka.restore import read_all
from conversations.protocol import rows
from conversations.protocol.topics import STATE, partition_of, service_topic

PATIENCE = 30.0
"""Seconds without progress after which a reading fails."""


@dataclass
class _Partition:
    """The group rows of one state partition, as they were last read."""

    next_offset: int = 0
    groups: dict[bytes, bytes] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)


class GroupStates:
    """The group rows of one service, read from Kafka. It is thread-safe.

    The first reading of a partition reads all its rows, and keeps the rows of its groups in memory. Each later reading reads the new rows.
    """

    def __init__(self, kafka: Kafka, service: str) -> None:
        self._kafka, self._service = kafka, service
        self._topic = service_topic(kafka.namespace, service, STATE)
        self._admin = Admin(kafka)
        self._catalog = CatalogReader(kafka, self._admin)
        self._partitions: dict[int, _Partition] = {}

    def read(self, key: str, names: list[bytes]) -> tuple[bytes | None, int]:
        """Return the first row of ``names`` that exists, and the time of the reading in microseconds since 1970.

        Every transaction that was committed before this time is in the row. ``key`` is the key of the group.

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
            return next((partition.groups[name] for name in names if name in partition.groups), None), as_of

    def _read_on(self, number: int, partition: _Partition) -> None:
        with self._admin.request() as client:
            try:
                found, next_offset = read_all(self._kafka, client, self._topic, partition.next_offset, PATIENCE, number)
            except LogError:
                partition.next_offset, partition.groups = 0, {}  # the topic may have been compacted or made anew
                raise
        partition.next_offset = next_offset
        for key, value in found:
            if not key.startswith(rows.GROUP):
                continue
            if value is None:
                partition.groups.pop(key, None)
            else:
                partition.groups[key] = value
