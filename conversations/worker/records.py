"""Conversion of items into rows that keep their records, and back."""

from __future__ import annotations

from conversations.protocol.envelope import Envelope, decode
from conversations.protocol.waiting_row import WaitingRow, encode_waiting, trace_in
from conversations.worker.active import Active, Arrival, Recorded


def row_of(item: Recorded) -> WaitingRow:
    """Make the row that keeps the record of an item."""
    return WaitingRow(
        item.topic, item.offset, item.log_time, item.accepted, item.attempts, item.key, item.trace, item.value
    )


def encode_item(item: Recorded) -> bytes:
    """Encode the row that keeps the record of an item."""
    return encode_waiting(row_of(item))


def arrival_of(active: Active, row: WaitingRow, envelope: Envelope | None = None) -> Arrival:
    """Make an item from a row that keeps an envelope; ``envelope`` is its envelope, if it is decoded already."""
    return Arrival(
        active, row.topic, row.offset, row.log_time, row.key, trace_in(row), row.value, row.accepted,
        envelope=decode(row.value) if envelope is None else envelope, attempts=row.attempts,
    )  # fmt: skip
