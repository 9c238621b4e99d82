"""Compares a value with what Avro made of it.

fastavro writes a value of a wrong type without an error, if it can: 1.9 as the long 1, "no" as true, a text as an array of its characters, and a time
without a zone as one of the machine's zone. So what was written is read again, and compared. What a schema asks for is no difference: a ``float`` has fewer
digits than Python's, and ``timestamp-millis`` has no microseconds.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

_SHORT = timedelta(milliseconds=1)


def difference(sent: Any, found: Any) -> str:
    """Return the path and the two values of the first difference; "" if there is none."""
    other = _difference(sent, found)
    if other is None:
        return ""
    path, one, two = other
    return f"{'.'.join(map(str, reversed(path))) or 'the body'}: {one!r:.80} would arrive as {two!r:.80}"


def _difference(sent: Any, found: Any) -> tuple[list[object], Any, Any] | None:
    """Return the path of a difference, its end first, and the two values."""
    if isinstance(found, dict | list) and _is_equal(sent, found):
        return None
    if isinstance(sent, tuple) and len(sent) == 2 and isinstance(sent[0], str) and _names_branch(sent, found):
        return _difference(sent[1], found)
    pairs: Iterable[tuple[object, Any, Any]]
    if isinstance(sent, Mapping) and isinstance(found, dict):
        pairs = ((key, part, found.get(key)) for key, part in sent.items())
    elif isinstance(found, list) and _is_array(sent, len(found)):
        pairs = ((at, part, other) for at, (part, other) in enumerate(zip(sent, found, strict=True)))
    else:
        return None if _is_same(sent, found) else ([], sent, found)
    for name, part, other in pairs:
        if (why := _difference(part, other)) is not None:
            why[0].append(name)
            return why
    return None


def _is_equal(sent: Any, found: Any) -> bool:
    """Return True if two lists or dicts are equal. This is quick. Lists that are not equal may have the same parts."""
    try:
        return type(sent) is type(found) and bool(sent == found)
    except ValueError:  # an array of numpy is in one of them
        return False


def _names_branch(sent: tuple[str, Any], found: Any) -> bool:
    """Return True if the first part of a pair names a branch of a union. Else the pair is an array of two texts."""
    return not isinstance(found, list) or (sent[0] == "array" and not isinstance(sent[1], str))


def _is_array(sent: Any, size: int) -> bool:
    """Return True for a collection of this size that may be written as an array. The order of a set is that of its writing."""
    return isinstance(sent, Collection) and not isinstance(sent, str | bytes | Mapping) and len(sent) == size


def _is_same(sent: Any, found: Any) -> bool:
    if isinstance(found, float):
        return _is_same_number(sent, found)
    if isinstance(found, datetime):
        return _is_near(sent, found) if isinstance(sent, datetime) else _is_whole(sent)
    if isinstance(found, date):
        return not isinstance(sent, datetime) and _is_whole(sent)
    if isinstance(found, time):
        return (
            _in_millis(sent) == _in_millis(found) and sent.tzinfo == found.tzinfo
            if isinstance(sent, time)
            else _is_whole(sent)
        )
    if isinstance(found, UUID):
        return str(sent).replace("-", "").lower() == found.hex
    if isinstance(found, Decimal):
        return not isinstance(sent, Decimal) or sent == found
    if isinstance(found, int | str | bytes | list | dict) or found is None:
        return bool(sent == found)
    return True  # a logical type of the application


def _is_same_number(sent: Any, found: float) -> bool:
    if sent == found or (math.isnan(found) and sent != sent):  # noqa: PLR0124 - NaN is not itself
        return True
    if not isinstance(sent, int | float | Decimal) or (found == 0 and sent != 0):
        return False
    number = float(sent)
    return (found == number and isinstance(sent, Decimal)) or _rounded(number) == found != number


def _is_whole(sent: Any) -> bool:
    """Return True unless a number loses its fraction: times of Avro are whole numbers."""
    return not isinstance(sent, float) or sent.is_integer()


def _in_millis(moment: time) -> time:
    return moment.replace(microsecond=moment.microsecond // 1_000 * 1_000, tzinfo=None)


def _is_near(sent: datetime, found: datetime) -> bool:
    return (sent.tzinfo is None) == (found.tzinfo is None) and abs(sent - found) < _SHORT


def _rounded(number: float) -> float:
    """Return a number as a ``float`` of Avro; infinity if it is too large."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        return math.nan
