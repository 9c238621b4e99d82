"""The metrics that the Spark job ``dialog-metrics --publish`` writes for each minute, service and contract, in the file of the read model."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from conversations.ports import Record
from conversations_ops.console.times import instant
from conversations_ops.read_model.file import File

MINUTE = 60
COUNTS = ("begun", "messages", "ended", "errored", "expired", "replied")
LEVELS = ("open", "backlog")
"""Values at the end of a minute."""
TIMES = ("reply_p50", "reply_p95", "reply_p99", "end_p50", "end_p95", "end_p99")
"""Quantiles in seconds."""
LARGEST = 2**53
"""Larger values are taken for unknown, because no sum of them can be trusted."""
COLUMNS = (*COUNTS, *LEVELS, *TIMES)


class Slot(NamedTuple):
    """The metrics of one or more minutes, over all services and contracts that were asked for. A value is None if nobody knows it."""

    begin: int
    """Seconds since 1970."""
    values: Mapping[str, float | None]
    """By the names in ``COLUMNS``. Counts are sums, levels are those of the newest minute, and quantiles are the highest ones."""


def write_minutes(connection: sqlite3.Connection, records: Sequence[Record]) -> None:
    """Write the rows of records. What is no such row is left out, because any program may have written it."""
    for record in records:
        key = _key(record.key() or b"")
        if key is None:
            continue
        connection.execute("DELETE FROM metrics WHERE minute = ? AND service = ? AND contract = ?", key)
        fields = _fields(record.value())
        if fields is not None:
            row = (*key, record.offset(), *(_number(fields.get(name)) for name in COLUMNS))
            connection.execute(f"INSERT INTO metrics VALUES ({','.join('?' * len(row))})", row)  # noqa: S608 - question marks


def _key(key: bytes) -> tuple[int, str, str] | None:
    try:
        service, contract, minute = key.decode().split("/")
        return int(instant(minute).timestamp()), service, contract
    except (ValueError, OverflowError):
        return None


def _fields(value: bytes | None) -> Mapping[str, Any] | None:
    try:
        fields = json.loads(value or b"null")
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None


def _number(value: object) -> int | float | None:
    """Return a number that can be summed without an overflow; None for anything else."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= LARGEST else None


def services_with_minutes(file: File) -> list[str]:
    """Return the names of the services that have metrics."""
    with file.explained():
        return [name for (name,) in file.connection.execute("SELECT DISTINCT service FROM metrics ORDER BY service")]


def newest_minute(file: File) -> int | None:
    """Return the newest minute that has metrics, in seconds since 1970; None if there is none."""
    with file.explained():
        (found,) = file.connection.execute("SELECT max(minute) FROM metrics").fetchone()
    return None if found is None else int(found)


def slots(file: File, since: int, size: int, number: int, service: str = "") -> list[Slot]:
    """Return slots of time, the oldest first. A slot without any minute has only None.

    Args:
        file: the read model.
        since: begin of the first slot, seconds since 1970.
        size: length of a slot in seconds, whole minutes.
        number: number of slots.
        service: only dialogs that this service began; all if it is empty.
    """
    parts = [f"sum({name})" for name in (*COUNTS, *LEVELS)] + [f"max({name})" for name in TIMES]
    sql = (
        f"SELECT minute, {', '.join(parts)} FROM metrics WHERE minute >= ? AND minute < ? AND (? = '' OR service = ?) "  # noqa: S608 - constants
        "GROUP BY minute ORDER BY minute"
    )
    with file.explained():
        rows = file.connection.execute(sql, (since, since + size * number, service, service)).fetchall()
    found: list[dict[str, float | None]] = [dict.fromkeys(COLUMNS) for _ in range(number)]
    for minute, *values in rows:
        _add(found[(minute - since) // size], dict(zip(COLUMNS, values, strict=True)))
    return [Slot(since + size * at, values) for at, values in enumerate(found)]


def _add(slot: dict[str, float | None], minute: Mapping[str, float | None]) -> None:
    for name, value in minute.items():
        before = slot[name]
        if value is None:
            continue
        if name in COUNTS and before is not None:
            slot[name] = before + value
        elif name in TIMES and before is not None:
            slot[name] = max(before, value)
        else:
            slot[name] = value
