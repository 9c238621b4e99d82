"""Avro's long: a zigzag number in base 128. Small numbers are in tables, for speed (design decision 0004)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from conversations.errors import UndecodableRecord

_LIMIT: Final = 8192
_LOW, _HIGH = -(1 << 63), (1 << 63) - 1
_UNSIGNED = (1 << 64) - 1
_INT = 1 << 31


def _encode(number: int) -> bytes:
    rest = number << 1 if number >= 0 else (-number << 1) - 1
    out = bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
    return bytes(out)


LONGS: Final[tuple[bytes, ...]] = (*(_encode(number) for number in range(_LIMIT)), _encode(-1))
"""The encoded numbers 0 to 8191, and -1 at index -1. No other number may be looked up here."""

PAIRS: dict[bytes, tuple[int, int]] = {}
"""Cache of pairs of longs already read, by their bytes; see ``read_pair``."""

PAIR_SIZE = 16
"""Number of bytes of two encoded times of today, and of every key in ``PAIRS``.

Dialogs that one step begins under one contract have the same times.
"""

TABLE_END: Final = _LIMIT
"""``LONGS`` has the numbers from -1 up to, and not including, this number."""


class _Encoded(dict[int, bytes]):
    """Cache of numbers encoded recently: small numbers, and times that many records of a step have in common."""

    def __missing__(self, number: int) -> bytes:
        if not _LOW <= number <= _HIGH:
            raise OverflowError(f"{number} does not fit in 64 bits")
        if len(self) >= 2 * _LIMIT:
            self.clear()
        encoded = self[number] = _encode(number)
        return encoded


encode_long: Final[Callable[[int], bytes]] = _Encoded().__getitem__
"""Encode a number as Avro encodes a long: 1 to 10 bytes. Nearly all calls find the number in a cache.

Raises:
    OverflowError: the number does not fit in 64 bits.
"""


def encode_new(number: int) -> bytes:
    """Encode a number as ``encode_long`` does, but not through its cache: for numbers that hardly ever come again.

    Raises:
        OverflowError: the number does not fit in 64 bits.
    """
    if not _LOW <= number <= _HIGH:
        raise OverflowError(f"{number} does not fit in 64 bits")
    return _encode(number)


def encode_numbers(numbers: Collection[int]) -> bytes:
    """Encode numbers as Avro encodes an array of longs."""
    if not numbers:
        return b"\0"
    return b"".join((encode_long(len(numbers)), *(encode_long(number) for number in numbers), b"\0"))


def read_long(value: bytes, at: int) -> tuple[int, int]:
    """Decode the long at ``at``. Return the number and the position of the next field.

    As in Avro, an encoding may be longer than necessary, up to 10 bytes. A number of more than 64 bits is refused.

    Raises:
        UndecodableRecord: the bytes end inside the number, or its encoding is too long, or it has more than 64 bits.
    """
    if at < len(value) and (byte := value[at]) < 128:
        return byte >> 1 ^ -(byte & 1), at + 1
    number = shift = 0
    for end in range(at, min(at + 10, len(value))):
        byte = value[end]
        number |= (byte & 127) << shift
        if byte < 128:
            if number > _UNSIGNED:
                break
            return number >> 1 ^ -(number & 1), end + 1
        shift += 7
    if at + 10 > len(value) and shift == 7 * (len(value) - at):
        raise UndecodableRecord(f"truncated: the record ends at byte {len(value)}, inside a number")
    raise UndecodableRecord(f"the number at byte {at} is longer than 64 bits")


def read_pair(value: bytes, at: int) -> tuple[tuple[int, int], int]:
    """Decode the two longs at ``at``. Return the numbers and the position of the next field.

    A pair of ``PAIR_SIZE`` bytes is put into the cache ``PAIRS``. For speed, the caller itself first looks in the cache:
    ``PAIRS.get(value[at : at + PAIR_SIZE])``.

    Raises:
        UndecodableRecord: ``read_long`` refuses the bytes of a number.
    """
    first, middle = read_long(value, at)
    second, end = read_long(value, middle)
    pair = first, second
    if end == at + PAIR_SIZE:
        if len(PAIRS) >= _LIMIT:
            PAIRS.clear()
        PAIRS[value[at:end]] = pair
    return pair, end


def read_int(value: bytes, at: int) -> tuple[int, int]:
    """Decode the int at ``at``: a long of at most 32 bits. Return the number and the position of the next field.

    Raises:
        UndecodableRecord: ``read_long`` refuses the bytes, or the number has more than 32 bits.
    """
    number, end = read_long(value, at)
    if not -_INT <= number < _INT:
        raise UndecodableRecord(f"the int at byte {at} is longer than 32 bits")
    return number, end


def read_bytes(value: bytes, at: int) -> tuple[bytes, int]:
    """Decode the bytes at ``at``: a length, and so many bytes. Return them and the position of the next field.

    Raises:
        UndecodableRecord: the length is negative, or more than the bytes that are left.
    """
    size, at = read_long(value, at)
    end = at + size
    if size < 0 or end > len(value):
        raise UndecodableRecord(
            f"truncated: {size} bytes are told at byte {at}, but the record has only {len(value)} bytes"
        )
    return value[at:end], end


def read_numbers(value: bytes, at: int) -> tuple[list[int], int]:
    """Decode the array of longs at ``at``. Return the numbers and the position of the next field.

    Raises:
        UndecodableRecord: a count is negative, or more than the bytes that are left, or ``read_long`` refuses a number.
    """
    found: list[int] = []
    while True:
        count, at = read_long(value, at)
        if count == 0:
            return found, at
        if not 0 < count <= len(value) - at:
            raise UndecodableRecord(f"an array of {count} numbers in {len(value) - at} bytes")
        for _ in range(count):
            number, at = read_long(value, at)
            found.append(number)
