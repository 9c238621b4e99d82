"""Writes the records of the topics of a namespace into the tables of the read model. Each kind of topic has its own tables."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from conversations.ports import Record
from conversations.protocol import rows
from conversations.protocol.topics import DEAD_LETTER, STATE
from conversations_ops.operate.events import told_in
from conversations_ops.operate.open_letters import letter_in
from conversations_ops.read_model.file import stored
from conversations_ops.read_model.kept import NOBODY, Kept, kept
from conversations_ops.read_model.minutes import write_minutes

EVENTS, OPERATORS, METRICS = "events", "operators", "metrics"
"""The kinds of the topics that belong to no service."""
LONGEST = 20_000
"""Maximum number of characters that are kept of the fields of an event."""


class Source(NamedTuple):
    """A topic that the read model follows."""

    service: str
    """Empty for a topic that belongs to no service."""
    kind: str
    """``state``, ``dead-letter``, ``events``, ``operators`` or ``metrics``."""


Where: TypeAlias = tuple[str, int]
"""A service and the number of a partition."""
_TABLES: Mapping[str, Sequence[str]] = {
    STATE: ("rows", "changed", "sides", "sums", "parked", "timers", "open"),
    DEAD_LETTER: ("letters",),
    EVENTS: (),
    OPERATORS: (),
    METRICS: (),
}
"""The tables with a service and a partition, by the kind of the topic that fills them."""
_TABLES_OF_NO_SERVICE = {EVENTS, OPERATORS, METRICS}
"""The kinds of the topics that fill a table of the same name."""


def forget(connection: sqlite3.Connection, kind: str, where: Where) -> None:
    """Delete everything that came from a partition of a topic of this kind."""
    if kind in _TABLES_OF_NO_SERVICE:
        connection.execute(f"DELETE FROM {kind}")  # noqa: S608 - a constant
    for table in _TABLES.get(kind, ()):
        connection.execute(f"DELETE FROM {table} WHERE service = ? AND partition = ?", where)  # noqa: S608 - constants


def trim(connection: sqlite3.Connection, kind: str, where: Where, first: int) -> None:
    """Delete what came from records before the offset ``first``, because Kafka has deleted them. The rows of a state topic stay."""
    if kind in _TABLES_OF_NO_SERVICE:
        connection.execute(f"DELETE FROM {kind} WHERE at_offset < ?", (first,))  # noqa: S608 - a constant
    elif kind == DEAD_LETTER:
        connection.execute("DELETE FROM letters WHERE service = ? AND partition = ? AND at_offset < ?", (*where, first))


def write(connection: sqlite3.Connection, source: Source, partition: int, records: Sequence[Record]) -> None:
    """Write new records of one partition, in the order of its log."""
    _WRITERS[source.kind](connection, (source.service, partition), records)


def _write_state(connection: sqlite3.Connection, where: Where, records: Sequence[Record]) -> None:
    write_rows(connection, where, kept((it.key() or b"", it.value()) for it in records))


def write_rows(connection: sqlite3.Connection, where: Where, changes: Iterable[Kept]) -> None:
    """Write changed rows of a state topic, and mark the sides of dialogs to which they belong. ``changes`` has each key once."""
    # No two changes have the same key, so their order does not matter, and each table is written with one statement.
    owns: set[bytes] = set()
    new: list[tuple[object, ...]] = []
    gone: list[tuple[object, ...]] = []
    for it in changes:
        owns.add(it.own)
        if it.key[:1] == rows.WAITING:
            owns.add(_own_before(connection, (*where, it.key)))
        if it.value is None:
            gone.append((*where, it.key))
        else:
            new.append((*where, it.key, it.own, it.value))
        if it.key[:1] == rows.LETTER:
            _open(connection, where, it)
    connection.executemany("DELETE FROM rows WHERE service = ? AND partition = ? AND key = ?", gone)
    connection.executemany("INSERT OR REPLACE INTO rows VALUES (?,?,?,?,?)", new)
    marks = ((*where, own) for own in owns if own != NOBODY)
    connection.executemany("INSERT OR IGNORE INTO changed VALUES (?,?,?)", marks)


def _own_before(connection: sqlite3.Connection, place: tuple[str, int, bytes]) -> bytes:
    """Return the side of a waiting row before its change. The key of such a row does not have it, and a deleted row has no value."""
    found = connection.execute("SELECT own FROM rows WHERE service = ? AND partition = ? AND key = ?", place).fetchone()
    return NOBODY if found is None else bytes(found[0])


def _open(connection: sqlite3.Connection, where: Where, it: Kept) -> None:
    place = (*where, *rows.letter_source(it.key))
    if it.value is None:
        connection.execute("DELETE FROM open WHERE service = ? AND partition = ? AND topic = ? AND offset = ?", place)
    else:
        connection.execute("INSERT OR IGNORE INTO open VALUES (?,?,?,?)", place)


def _write_letters(connection: sqlite3.Connection, where: Where, records: Sequence[Record]) -> None:
    for record in records:
        it = letter_in(where[0], record)
        source = (*where, it.topic, it.offset)
        exception, message = it.exception, it.message
        before = connection.execute(_LAST, source).fetchone()
        if before is not None and not exception:
            # A held message gets a second letter when an operator decides about it. Only the first one has the failure.
            exception, message = before
        connection.execute(_OLDER, source)
        connection.execute(
            f"INSERT OR REPLACE INTO letters VALUES ({','.join('?' * 19)})",  # noqa: S608 - question marks only
            (
                *where, record.offset() or 0, it.letter, it.topic, it.offset, it.reason, exception, message, it.conversation,
                it.from_initiator, it.number, it.what, it.at, it.foreign, it.code, it.decided_by, it.decided_why, True,
            ),
        )  # fmt: skip


# Without statistics, SQLite would search all letters of the partition for each new one.
_LAST = """
SELECT exception, message FROM letters INDEXED BY letters_by_source WHERE service = ? AND partition = ? AND topic = ? AND offset = ? AND is_last
"""
_OLDER = """
UPDATE letters INDEXED BY letters_by_source SET is_last = 0 WHERE service = ? AND partition = ? AND topic = ? AND offset = ? AND is_last
"""


def _write_events(connection: sqlite3.Connection, _where: Where, records: Sequence[Record]) -> None:
    for record, it in told_in(records):
        names = (str(it.fields.get(name, "")) for name in ("conversation", "dialog", "by"))
        fields = json.dumps(dict(it.fields))
        connection.execute(
            "INSERT OR REPLACE INTO events VALUES (?,?,?,?,?,?,?,?)",
            (record.offset(), stored(it.at), it.name, it.service, *names, fields if len(fields) <= LONGEST else "{}"),
        )


def _write_operators(connection: sqlite3.Connection, _where: Where, records: Sequence[Record]) -> None:
    for record in records:
        key, value = (record.key() or b"").decode("utf-8", "replace"), record.value()
        connection.execute("DELETE FROM operators WHERE key = ?", (key,))
        if value is not None:
            row = (key, record.offset(), value.decode("utf-8", "replace"))
            connection.execute("INSERT INTO operators VALUES (?,?,?)", row)


_WRITERS: Mapping[str, Callable[[sqlite3.Connection, Where, Sequence[Record]], None]] = {
    STATE: _write_state,
    DEAD_LETTER: _write_letters,
    EVENTS: _write_events,
    OPERATORS: _write_operators,
    METRICS: lambda connection, _where, records: write_minutes(connection, records),
}
