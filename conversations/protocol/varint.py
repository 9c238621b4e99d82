"""Avro's long: a zigzag number in base 128, small ones from tables (design decision 0004)."""

from __future__ import annotations

from collections.abc import Callable

from conversations.errors import UndecodableRecord

_LIMIT = 8192
_LOW, _HIGH = -(1 << 63), (1 << 63) - 1
_UNSIGNED = (1 << 64) - 1


def _encode(number: int) -> bytes:
    rest = number << 1 if number >= 0 else (-number << 1) - 1
    out = bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
    return bytes(out)


LONGS: tuple[bytes, ...] = (*(_encode(number) for number in range(_LIMIT)), _encode(-1))
"""Encoded 0 to 8191, and -1 at its own negative index; nothing else may be looked up here."""

PAIRS: dict[bytes, tuple[int, int]] = {}
"""Pairs of longs already read, each under its bytes, see ``read_pair``."""

PAIR_SIZE = 16
"""Bytes of two of today's times, and of any pair in ``PAIRS``: dialogs that one step begins under one contract share them."""

TABLE_END = _LIMIT
"""Numbers from -1 up to, and not including, this one are in ``LONGS``."""


class _Encoded(dict[int, bytes]):
    """Numbers encoded lately: small ones, and times that many records of a step share."""

    def __missing__(self, number: int) -> bytes:
        if not _LOW <= number <= _HIGH:
            raise OverflowError(f"{number} does not fit in 64 bits")
        if len(self) >= 2 * _LIMIT:
            self.clear()
        encoded = self[number] = _encode(number)
        return encoded


encode_long: Callable[[int], bytes] = _Encoded().__getitem__
"""Encode a number as Avro encodes a long: 1 to 10 bytes. Nearly all calls are one look into a table.

Raises:
    OverflowError: it does not fit in 64 bits.
"""


def read_long(value: bytes, at: int) -> tuple[int, int]:
    """Read the long at ``at``: the number, and where the next field begins.

    Encodings longer than necessary are accepted, as Avro does; more than 10 bytes or 64 bits are not.

    Raises:
        UndecodableRecord: the bytes end inside it, or it is no 64-bit number.
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
    """Read the two longs at ``at``: the numbers, and where the next field begins; remember them when they are times.

    The memory is asked with ``PAIRS.get(value[at : at + PAIR_SIZE])``, by the caller itself, for speed.

    Raises:
        UndecodableRecord: the bytes end inside them, or one is no 64-bit number.
    """
    first, middle = read_long(value, at)
    second, end = read_long(value, middle)
    pair = first, second
    if end == at + PAIR_SIZE:
        if len(PAIRS) >= _LIMIT:
            PAIRS.clear()
        PAIRS[value[at:end]] = pair
    return pair, end
