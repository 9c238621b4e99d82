"""Transactions of a log in memory. The records of a transaction become visible together, or never."""

from __future__ import annotations

from conversations.memory.record import MemoryRecord


class Transaction:
    """One transaction of a producer: the records that it has appended, and the group offsets that it carries."""

    __slots__ = ("first", "offsets", "records", "service")

    def __init__(self, service: str) -> None:
        self.service = service
        self.records: list[MemoryRecord] = []
        self.first: dict[tuple[str, int], int] = {}
        """Offset of the transaction's first record in each partition. No reader reads past this offset while the transaction is open."""
        self.offsets: dict[int, int] = {}
        """Queue positions of the service's group, by partition."""


class OpenTransactions:
    """The undecided transactions. No reader reads past their first offsets."""

    def __init__(self) -> None:
        self._by_partition: dict[tuple[str, int], list[Transaction]] = {}

    def add(self, transaction: Transaction, record: MemoryRecord) -> None:
        """Add a record to an open transaction."""
        transaction.records.append(record)
        where = record.topic(), record.partition()
        if where not in transaction.first:
            transaction.first[where] = record.offset()
            self._by_partition.setdefault(where, []).append(transaction)

    def remove(self, transaction: Transaction) -> None:
        """Remove a transaction that is decided."""
        for where in transaction.first:
            others = self._by_partition[where]
            others.remove(transaction)
            if not others:
                del self._by_partition[where]

    def first_offset(self, topic: str, partition: int) -> int | None:
        """Return the offset of the first undecided record of a partition, or None if there is none."""
        found = self._by_partition.get((topic, partition))
        return min(t.first[topic, partition] for t in found) if found else None
