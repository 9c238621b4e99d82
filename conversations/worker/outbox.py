"""The outbox of a partition: the contents of its next transaction, and the rows as they will be after that transaction.

A step does not write to the store or to Kafka directly. It fills a **flight** with rows of the state, records for other topics, and
notices. A notice is a function that is called after the commit. One flight is always being filled. At most one other flight is under
way, which means that its commit has begun. A commit that fails may be repeated. Meanwhile handlers fill the next flight.

    write, produce, notify --> the flight being filled --depart--> the flight under way --land--> store, notices
                                                                            ^      |
                                                                            '------'  the commit is repeated

This module enforces four rules:

* A read sees rows that are not committed yet. It looks into the flight being filled, then into the flight under way, then into the
  store. The store has only committed rows. So nothing remains of a flight that is thrown away.
* Every flight that departs has the partition's own row, with the positions. So the positions, and the results of the records before
  them, are in one transaction.
* A topic may refuse a record of a flight. The method ``withdraw`` takes this record out of the flight under way. Later records of the
  same dialog must not overtake it, so ``withdraw`` takes these records out of both flights. In each flight, rows replace the records.
* A record for a plain topic is never taken out of its flight, because it belongs to the effects of its handler. If the topic refuses it, both
  flights are thrown away with their partition (``refusals``).

All callers hold ``Context.lock``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import islice
from typing import Any, TypeVar

from conversations.errors import StateDamaged
from conversations.ports import Headers, Produced, Store
from conversations.protocol import rows
from conversations.protocol.publications import size_of
from conversations.worker.active import Item
from conversations.worker.breakdowns import Called
from conversations.worker.budget import Budget

R = TypeVar("R")

RECORD_COST = 100
"""Bytes of the step's budget that each published record takes besides its own bytes, because a record may be empty."""


@dataclass(slots=True)
class Flight:
    """The rows and records of one step of one partition. They are kept until their commit has succeeded, or the partition is gone."""

    outs: list[Any] = field(default_factory=list)
    """Records to append. After the departure, the rows are here as well, as records of the state topic."""
    rows: dict[bytes, bytes | None] = field(default_factory=dict)
    queue: int = 0
    """Queue offset that is committed with the flight."""
    last: Item | None = None
    """Last item that was worked on in this step."""
    notices: list[Callable[[], None]] = field(default_factory=list)
    published: list[tuple[Any, Called]] = field(default_factory=list)
    """The records for plain topics, which are in ``outs`` as well, and the calls of the handlers that published them."""

    def begin(self, item: Item) -> None:
        """Note the item that is worked on now."""
        self.last = item

    def publish(self, records: Sequence[Any], called: Called) -> None:
        """Note the records that a call of a handler published."""
        self.published += [(record, called) for record in records]

    def depart(self, partition_row: bytes, queue: int, topic: str, number: int) -> None:
        """Add the partition's row, and append all rows to the records."""
        self.rows[rows.PARTITION] = partition_row
        self.queue = queue
        self.outs += [(topic, number, key, value, None) for key, value in self.rows.items()]

    def add_rows(self, before: set[bytes], topic: str, number: int) -> None:
        """Append the rows that were written after the departure. ``before`` is the set of keys of the rows that were written earlier."""
        self.outs += [(topic, number, key, value, None) for key, value in self.rows.items() if key not in before]


class Outbox:
    """The rows, records and notices of one partition's next transactions, and the store of its committed rows.

    Args:
        number: number of the partition.
        store: the committed rows.
        budget: counts the bytes of the step.
        state_topic, dead_letter_topic: topics for the rows and for the dead letters.
    """

    __slots__ = ("_budget", "_dead_letter_topic", "_number", "_state_topic", "filling", "flying", "store")

    def __init__(self, number: int, store: Store, budget: Budget, state_topic: str, dead_letter_topic: str) -> None:
        self._number = number
        self._budget = budget
        self._state_topic = state_topic
        self._dead_letter_topic = dead_letter_topic
        self.store = store
        self.filling = Flight()
        self.flying: Flight | None = None

    # -- reading ------------------------------------------------------------------------------------------

    def read(self, key: bytes) -> bytes | None:
        """Return a row as it will be after the commit of both flights; None if there is no such row."""
        filling, flying = self.filling.rows, self.flying
        if key in filling:
            return filling[key]
        if flying is not None and key in flying.rows:
            return flying.rows[key]
        return self.store.get(key)

    def read_once(self, key: bytes) -> bytes | None:
        """Return a row like ``read``: a large one, which is not kept in the cache of the store."""
        for flight in (self.filling, self.flying):
            if flight is not None and key in flight.rows:
                return flight.rows[key]
        return self.store.get_once(key)

    def read_ahead(self, keys: list[bytes], size: int) -> dict[bytes, bytes]:
        """Return rows by their keys, which follow each other: the first row, and further rows with at most ``size`` bytes.

        A row that the flights have changed is left out. A single row is not read ahead.
        """
        found: dict[bytes, bytes] = {}
        # New rows come behind all others. The store does not have them yet, and would look for them behind every row that was deleted there.
        while keys and self._is_changed(keys[-1]):
            keys.pop()
        for key, row in zip(keys, self.store.read_run(keys) if len(keys) > 1 else (), strict=False):
            size -= len(row) if found else 0
            if size < 0:
                break
            if not self._is_changed(key):
                found[key] = row
        return found

    def _is_changed(self, key: bytes) -> bool:
        """Return True if a flight has another row for a key than the store, or deletes the row."""
        return key in self.filling.rows or (self.flying is not None and key in self.flying.rows)

    def scan(self, prefix: bytes, most: int | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Return the rows whose keys start with ``prefix``, in key order, as they will be after the commit of both flights.

        ``most`` is the largest number of rows to return; None is no limit. Only the rows that the caller takes are read, because they may be large.
        They are the rows at the time of the call.
        """
        changed: dict[bytes, bytes | None] = {}
        for flight in (self.flying, self.filling):
            if flight is not None:
                changed |= {key: value for key, value in flight.rows.items() if key.startswith(prefix)}
        kept = self.store.scan(prefix)
        if not changed:
            return islice(kept, most)
        written = sorted((key, value) for key, value in changed.items() if value is not None)
        return islice(merge(_without(kept, changed), written), most)

    def decoded(self, key: bytes, decode: Callable[[bytes], R], row: bytes) -> R:
        """Decode a row.

        Raises:
            StateDamaged: the row cannot be decoded.
        """
        try:
            return decode(row)
        except ValueError as error:
            raise StateDamaged(self._number, f"state row {key[:40].hex()} cannot be understood: {error}") from error

    # -- filling ------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """True if the flight being filled has no rows, records or notices."""
        flight = self.filling
        return not (flight.rows or flight.outs or flight.notices)

    @property
    def at_work(self) -> Item | None:
        """Last item that was worked on in this step."""
        return self.filling.last

    def begin(self, item: Item) -> None:
        """Note the item that is worked on now. If closing the step fails, this item may be the cause."""
        self.filling.begin(item)

    def write(self, key: bytes, value: bytes | None) -> None:
        """Put a row into the next transaction. If ``value`` is None, delete the row."""
        flight_rows = self.filling.rows
        if value is not None:
            self._budget.spend(len(value) - len(flight_rows.get(key) or b""))
        flight_rows[key] = value

    def write_all(self, rows_by_key: dict[bytes, bytes]) -> None:
        """Put many rows into the next transaction."""
        flight_rows = self.filling.rows
        before = sum(len(flight_rows.get(key) or b"") for key in rows_by_key) if flight_rows else 0
        self._budget.spend(sum(map(len, rows_by_key.values())) - before)
        flight_rows.update(rows_by_key)

    def produce(self, record: Produced) -> None:
        """Append a record with the next transaction."""
        self.filling.outs.append(record)
        self._budget.spend(len(record[3] or b""))

    def publish(self, records: Sequence[Any], called: Called) -> None:
        """Append the records that a handler published with the next transaction."""
        for record in records:
            self.filling.outs.append(record)
            self._budget.spend(size_of(record) + RECORD_COST)
        self.filling.publish(records, called)

    def published(self) -> list[tuple[Any, Called]]:
        """Return the published records of both flights, and the calls of the handlers that published them."""
        flying = () if self.flying is None else self.flying.published
        return [*flying, *self.filling.published]

    def notify(self, notice: Callable[[], None]) -> None:
        """Call ``notice`` after the next transaction is committed."""
        self.filling.notices.append(notice)

    def dead_letter(self, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        """Append a record to the dead-letter topic with the next transaction."""
        self.produce((self._dead_letter_topic, self._number, key, value, headers))

    # -- a flight under way -------------------------------------------------------------------------------

    def depart(self, partition_row: bytes, queue: int) -> None:
        """Add the partition's row and the queue offset to the flight being filled, and close it. Then this flight is under way."""
        flight = self.filling
        flight.depart(partition_row, queue, self._state_topic, self._number)
        self.flying = flight
        self.filling = Flight()

    def land(self, checkpoint: int | None) -> list[Callable[[], None]]:
        """Write the rows of the committed flight into the store; return its notices.

        Raises:
            CopyDamaged: the store cannot be written.
        """
        flight = self.flying
        if flight is None:
            return []
        self.store.apply(flight.rows.items(), checkpoint if checkpoint is not None else self.store.checkpoint() or 0)
        self.flying = None
        return flight.notices

    def withdraw(self, take_out: Callable[[list[Any]], None]) -> None:
        """Call ``take_out`` to remove records from both flights. ``take_out`` may write rows that replace these records."""
        flight, later = self.flying, self.filling
        if flight is not None:
            self.flying, self.filling = None, flight
            before = set(flight.rows)
            take_out(flight.outs)
            flight.add_rows(before, self._state_topic, self._number)
            self.flying, self.filling = flight, later
        # Handlers continued while the commit failed. So the flight being filled may have later envelopes of the same dialogs.
        take_out(later.outs)


def _without(kept: Iterable[tuple[bytes, bytes]], changed: dict[bytes, bytes | None]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the rows that the flights have not changed."""
    # A function, because a compiled generator expression is a list: of all rows, which may be large.
    for row in kept:
        if row[0] not in changed:
            yield row
