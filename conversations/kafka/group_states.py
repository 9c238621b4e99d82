"""Reads rows and refused commands of a service from its topics, for readers outside its workers."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TypeVar, cast

from conversations.config import Kafka, Periods
from conversations.durations import SECOND
from conversations.errors import DeclarationError
from conversations.kafka.catalog import CatalogReader
from conversations.kafka.clients import Admin
from conversations.kafka.offsets import OffsetClient
from conversations.kafka.restore import BoundedReader, read_all
from conversations.ports import Headers, Table
from conversations.protocol import rows
from conversations.protocol.letters import RefusedCommand, refused_of
from conversations.protocol.topics import DEAD_LETTER, STATE, partition_of, service_topic

PATIENCE = 30.0
"""Seconds without progress after which a reading fails."""
LETTERS = 10_000
"""Number of the last letters of a partition among which the first reading looks for refused commands."""
REFUSALS = 10_000
"""Number of refused commands of a partition that a reader keeps, the newest ones."""
GROUPS = (rows.GROUP,)
DIALOGS = (rows.ENDPOINT, rows.GROUP, rows.COMMAND, rows.PARK, rows.RETRY, rows.DELAYED, rows.SUCCESSION)
"""Kinds of the rows that tell how a dialog stands."""
T = TypeVar("T")


@dataclass
class _Partition:
    """The rows of one state partition, as they were last read."""

    kinds: tuple[bytes, ...]
    next_offset: int = 0
    read_at: float = 0.0
    """Time of the last reading, by ``time.monotonic``."""
    rows: dict[bytes, dict[bytes, bytes]] = field(default_factory=dict)
    """The rows by kind and key."""
    lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin again at the start of the partition with the next reading."""
        self.next_offset, self.rows = 0, {kind: {} for kind in self.kinds}

    def take(self, found: Sequence[tuple[bytes, bytes | None]], next_offset: int) -> None:
        """Take up the rows that were read, in order."""
        for key, value in found:
            kept = self.rows.get(key[:1])
            if kept is None:
                continue
            if value is None:
                kept.pop(key, None)
            else:
                kept[key] = rows.trimmed(key, value)
        self.next_offset, self.read_at = next_offset, time.monotonic()


@dataclass
class _Letters:
    """The refused commands of one partition of the dead-letter topic, as they were last read."""

    next_offset: int | None = None
    found: deque[tuple[str, bool, RefusedCommand]] = field(default_factory=lambda: deque(maxlen=REFUSALS))
    lock: Lock = field(default_factory=Lock)


class StateTables:
    """Rows of one service, read from Kafka. It is thread-safe.

    The first reading of a partition reads all its rows, and keeps the rows of the wanted kinds in memory. Each later reading reads the new rows.
    Kafka removes the mark of a deleted row after ``Periods.deletes_kept``. So a partition that was not read for half of this period is read
    from its start again, and so is a topic that is shorter than before, because it was made anew.
    """

    def __init__(self, kafka: Kafka, service: str, periods: Periods, kinds: tuple[bytes, ...] = DIALOGS) -> None:
        self._kafka, self._service, self._kinds = kafka, service, kinds
        self._fresh_for = periods.deletes_kept / 2 / SECOND
        self._topic = service_topic(kafka.namespace, service, STATE)
        self._catalog = CatalogReader(kafka, Admin(kafka))
        self._offsets = OffsetClient(kafka)
        self._partitions: dict[int, _Partition] = {}
        self._letters: dict[int, _Letters] = {}

    def look(self, key: str, want: Callable[[Table], T]) -> tuple[T, int]:
        """Return the result of ``want`` for the rows of the partition of ``key``, and the time of the reading in microseconds since 1970.

        Every transaction that was committed before this time is in the rows, and no other.

        Raises:
            DeclarationError: the catalog does not name the service.
            KafkaUnreachable: no broker answered.
            LogError: the state topic cannot be read.
        """
        number = self._number(key)
        partition = self._partitions.setdefault(number, _Partition(self._kinds))
        with partition.lock:
            as_of = time.time_ns() // 1_000
            self._read_on(number, partition)
            return want(partition.rows), as_of

    def refused(self, key: str, conversation: str, *, initiator: bool) -> list[RefusedCommand]:
        """Return the commands for one side of a dialog that were refused, oldest first. Only the last letters of the partition are read.

        Raises:
            DeclarationError: the catalog does not name the service.
            KafkaUnreachable: no broker answered.
            LogError: the letters cannot be read.
        """
        number = self._number(key)
        letters = self._letters.setdefault(number, _Letters())
        with letters.lock:
            self._read_letters(number, letters)
            return [it for name, side, it in letters.found if (name, side) == (conversation, initiator)]

    def close(self) -> None:
        """Forget all rows. The next call reads them again."""
        self._partitions.clear()
        self._letters.clear()

    def _number(self, key: str) -> int:
        count = self._catalog.partitions(self._service)
        if count is None:
            raise DeclarationError(f"service {self._service!r} is not in the catalog: run 'conversations apply' for it")
        return partition_of(key.encode(), count)

    def _read_on(self, number: int, partition: _Partition) -> None:
        if time.monotonic() - partition.read_at > self._fresh_for:
            partition.forget()
        end = self._offsets.ask(self._topic, number, timeout=PATIENCE)
        if end < partition.next_offset:
            partition.forget()
        partition.take(*read_all(self._kafka, self._topic, partition.next_offset, PATIENCE, number, self._offsets))

    def _read_letters(self, number: int, letters: _Letters) -> None:
        topic = service_topic(self._kafka.namespace, self._service, DEAD_LETTER)
        first = self._offsets.ask(topic, number, first=True, timeout=PATIENCE)
        end = self._offsets.ask(topic, number, timeout=PATIENCE)
        if letters.next_offset is None or end < letters.next_offset:
            letters.next_offset = max(first, end - LETTERS)
            letters.found.clear()
        reader = BoundedReader(self._kafka, topic, number, max(first, letters.next_offset), end, PATIENCE)
        try:
            while not reader.done:
                for record in reader.read_records(100):
                    headers = {name: value or b"" for name, value in cast("Headers", record.headers() or [])}
                    if (refused := refused_of(headers)) is not None:
                        letters.found.append(refused)
        finally:
            reader.close()
        letters.next_offset = reader.next_offset


class GroupStates(StateTables):
    """The group rows of one service, read from Kafka. It is thread-safe."""

    def __init__(self, kafka: Kafka, service: str, periods: Periods) -> None:
        super().__init__(kafka, service, periods, GROUPS)

    def read(self, key: str, names: list[bytes]) -> tuple[list[bytes], int]:
        """Return the rows of ``names`` that exist, in this order, and the time of the reading in microseconds since 1970.

        Every transaction that was committed before this time is in the rows. ``key`` is the key of the group.

        Raises:
            DeclarationError: the catalog does not name the service.
            KafkaUnreachable: no broker answered.
            LogError: the state topic cannot be read.
        """
        return self.look(key, lambda table: [table[rows.GROUP][name] for name in names if name in table[rows.GROUP]])
