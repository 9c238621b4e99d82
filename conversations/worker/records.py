"""Rows that keep a record until its handler has finished, and records made again of them."""

from __future__ import annotations

from conversations.protocol import rows
from conversations.protocol.envelope import decode
from conversations.worker.active import Active, Item


def row_of(item: Item) -> rows.WaitingRow:
    """Make the row that keeps a record."""
    return rows.WaitingRow(
        item.topic, item.offset, item.log_time, item.accepted, item.attempts, item.key, item.header, item.value
    )


def encode_item(item: Item) -> bytes:
    """Encode the row that keeps a record."""
    return rows.encode_waiting(row_of(item))


def item_of(active: Active, row: rows.WaitingRow) -> Item:
    """Make an item again of a row that keeps an envelope."""
    return Item(
        active, decode(row.value), topic=row.topic, offset=row.offset, log_time=row.log_time, key=row.key,
        header=row.header, value=row.value, accepted=row.accepted, attempts=row.attempts,
    )  # fmt: skip
