"""Derives the searchable facts of sides from their rows. Every rule about rows is that of ``operate.dialogs``."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Sequence

from conversations.protocol.states import State
from conversations_ops.operate.dialogs import Side, sides_in
from conversations_ops.read_model.file import stored

TOGETHER = 500
"""Number of sides that are derived with one query."""
Partition = tuple[str, int]
"""A service and the number of a partition."""


def derive(connection: sqlite3.Connection, namespace: str, count: int) -> int:
    """Derive up to ``count`` marked sides again, and return their number. The caller has begun a transaction."""
    marked: dict[Partition, list[bytes]] = defaultdict(list)
    for service, partition, own in connection.execute("SELECT service, partition, own FROM changed LIMIT ?", (count,)):
        marked[service, partition].append(own)
    for where, owns in marked.items():
        for at in range(0, len(owns), TOGETHER):
            _derive(connection, namespace, where, owns[at : at + TOGETHER])
    return sum(map(len, marked.values()))


def _derive(connection: sqlite3.Connection, namespace: str, where: Partition, owns: Sequence[bytes]) -> None:
    places = [(*where, own) for own in owns]
    _add(connection, where, owns, -1)
    for table in ("sides", "parked", "timers", "changed"):
        connection.executemany(f"DELETE FROM {table} WHERE service = ? AND partition = ? AND own = ?", places)  # noqa: S608 - four constants
    sides = list(sides_of(connection, namespace, where, owns))
    connection.executemany("INSERT INTO sides VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)", map(_stored, map(_side, sides)))
    connection.executemany(
        "INSERT INTO parked VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
        (_stored(row) for it in sides for row in _heads(it)),
    )
    connection.executemany(
        "INSERT INTO timers VALUES (?,?,?,?,?,?,?)", (_stored(row) for it in sides for row in _timers(it))
    )
    _add(connection, where, owns, 1)
    connection.execute("DELETE FROM sums WHERE service = ? AND partition = ? AND open = 0", where)


_MOST = 2**31
"""What one side adds to a sum at most, so that no sum is larger than SQLite's integers. Records from outside may have any number."""
_OPEN = f"""
SELECT peer, count(*), sum(min(pending, {_MOST})), sum(min(delayed, {_MOST})), sum(min(parked, {_MOST})), sum(delayed > 0) FROM sides
WHERE service = ? AND partition = ? AND closed = 0 AND own IN
"""  # noqa: S608 - a constant
_ADD = """
INSERT INTO sums VALUES (?,?,?,?,?,?,?,?) ON CONFLICT DO UPDATE SET open = open + excluded.open, pending = pending + excluded.pending,
delayed = delayed + excluded.delayed, parked = parked + excluded.parked, kept_back = kept_back + excluded.kept_back
"""


def _add(connection: sqlite3.Connection, where: Partition, owns: Sequence[bytes], sign: int) -> None:
    """Add what these open sides have now to the sums of their partition, or subtract it if ``sign`` is -1."""
    sql = f"{_OPEN} ({','.join('?' * len(owns))}) GROUP BY peer"
    for peer, *counts in connection.execute(sql, (*where, *owns)).fetchall():
        connection.execute(_ADD, (*where, peer, *(sign * it for it in counts)))


_ROWS = "SELECT key, value FROM rows INDEXED BY rows_of_side WHERE service = ? AND partition = ? AND own = ?"
"""Without statistics, SQLite would search all rows of the partition."""


def sides_of(connection: sqlite3.Connection, namespace: str, where: Partition, owns: Sequence[bytes]) -> Iterator[Side]:
    """Yield the sides of these names in a partition, as their rows in the file have them."""
    table: dict[bytes, bytes] = {}
    for own in owns:
        table.update(connection.execute(_ROWS, (*where, own)))
    yield from sides_in(table, (namespace, *where))


def _stored(row: tuple[object, ...]) -> list[object]:
    return [stored(it) for it in row]


def _side(it: Side) -> tuple[object, ...]:
    closed = it.closed is not None or it.state is State.CLOSED
    pending = 0 if closed else max(it.sent - it.acknowledged, 0)
    return (
        it.service, it.partition, it.identity, it.contract, it.peer, int(it.state), it.began, closed, pending,
        it.waits.parked.records, it.waits.delayed.records, it.key, it.code,
    )  # fmt: skip


def _heads(it: Side) -> Iterator[tuple[object, ...]]:
    for head in it.heads:
        yield (
            it.service, it.partition, it.identity, head.letter, head.what, head.exception, head.failure, head.since, head.due,
            head.behind, head.queue_off, head.deadline, head.contract, head.peer, head.number, head.attempts,
        )  # fmt: skip


def _timers(it: Side) -> Iterator[tuple[object, ...]]:
    for name, due in it.timers.items():
        yield it.service, it.partition, it.identity, name, due, it.contract, it.peer
