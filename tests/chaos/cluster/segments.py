"""Batches of a partition, and the transactions in it, read from a broker's disk."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_BATCH = struct.Struct(">qiibIhiqqqhii")
"""Offset, length, leader's epoch, format, checksum, attributes, last number, two times, producer, its epoch, sequence, count."""
_LENGTH_BEHIND = 12
"""A batch's length counts from behind itself."""
_TRANSACTIONAL, _CONTROL = 0x10, 0x20


class Batch(NamedTuple):
    """One batch."""

    offset: int
    leader_epoch: int
    producer: int
    producer_epoch: int
    transactional: bool
    marker: bool
    number: int
    """Of its records."""
    body: bytes

    def records(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Key and value of each; only for batches that are not compressed."""
        at = 0
        for _ in range(self.number):
            length, at = _varint(self.body, at)
            end, at = at + length, at + 1
            for _ in range(2):  # by how much time and offset differ from the batch's
                _, at = _varint(self.body, at)
            key, at = _sized(self.body, at)
            value, at = _sized(self.body, at)
            yield key or b"", value
            at = end


def batches(partition: Path) -> Iterator[Batch]:
    """Read all batches of a partition's directory; one that is just being written ends it."""
    for segment in sorted(partition.glob("*.log")):
        data, at = segment.read_bytes(), 0
        while at + _BATCH.size <= len(data):
            offset, length, epoch, _, _, attributes, _, _, _, producer, its_epoch, _, count = _BATCH.unpack_from(
                data, at
            )
            end = at + _LENGTH_BEHIND + length
            if length <= 0 or end > len(data):
                return
            transactional, control = bool(attributes & _TRANSACTIONAL), bool(attributes & _CONTROL)
            body = data[at + _BATCH.size : end]
            yield Batch(offset, epoch, producer, its_epoch, transactional, control, count, body)
            at = end


class Open(NamedTuple):
    """A transaction without a marker."""

    producer: int
    epoch: int
    first: int
    """Offset of its first record."""


def open_transactions(partition: Path) -> set[Open]:
    """Return the transactions of a partition that have records and no marker behind them."""
    found: dict[int, Open] = {}
    for batch in batches(partition):
        if batch.transactional and batch.marker:
            found.pop(batch.producer, None)
        elif batch.transactional:
            found.setdefault(batch.producer, Open(batch.producer, batch.producer_epoch, batch.offset))
    return set(found.values())


def uvarint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of seven bits a byte, and where it ends."""
    value = shift = 0
    while True:
        byte, at = data[at], at + 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value, at = uvarint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _sized(data: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = _varint(data, at)
    return (None, at) if length < 0 else (data[at : at + length], at + length)
