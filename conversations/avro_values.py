"""Compares a value with what Avro made of it.

fastavro writes a value of a wrong type without an error, if it can: 1.9 as the long 1, "no" as true, a text as an array of its characters, and a time
without a zone as one of the machine's zone. So what was written is read again, and compared. What a schema asks for is no difference: a ``float`` has fewer
digits than Python's, and ``timestamp-millis`` has no microseconds.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

_SHORT = timedelta(milliseconds=1)


def difference(sent: Any, found: Any, path: str = "") -> str:
    """Return the path and the two values where what was read differs from what was sent; "" if they are the same."""
    if isinstance(sent, tuple) and len(sent) == 2 and isinstance(sent[0], str) and not isinstance(found, list):
        return difference(sent[1], found, path)  # the first part names a branch of a union
    if isinstance(sent, Mapping) and isinstance(found, dict):
        for key, part in sent.items():
            if why := difference(part, found.get(key), f"{path}.{key}"):
                return why
        return ""
    if isinstance(found, list) and _is_array(sent, len(found)):
        for at, (part, other) in enumerate(zip(sent, found, strict=True)):
            if why := difference(part, other, f"{path}.{at}"):
                return why
        return ""
    if _is_same(sent, found):
        return ""
    return f"{path.removeprefix('.') or 'the body'}: {sent!r:.80} would arrive as {found!r:.80}"


def _is_array(sent: Any, size: int) -> bool:
    """Return True for a collection of this size that may be written as an array. The order of a set is that of its writing."""
    return isinstance(sent, Collection) and not isinstance(sent, str | bytes | Mapping) and len(sent) == size


def _is_same(sent: Any, found: Any) -> bool:
    if isinstance(found, float) and isinstance(sent, float | Decimal):
        number = float(sent)
        return found == number or _rounded(number) == found or (math.isnan(number) and math.isnan(found))
    if isinstance(found, datetime):
        return not isinstance(sent, datetime) or _is_near(sent, found)
    if isinstance(found, date):
        return not isinstance(sent, datetime)
    if isinstance(found, time):
        return not isinstance(sent, time) or sent.replace(
            microsecond=sent.microsecond // 1_000 * 1_000
        ) == found.replace(microsecond=found.microsecond // 1_000 * 1_000)
    if isinstance(found, UUID):
        return str(sent).lower() == str(found)
    if isinstance(found, Decimal):
        return not isinstance(sent, Decimal) or sent == found
    if isinstance(found, int | float | str | bytes | list | dict) or found is None:
        return bool(sent == found)
    return True  # a logical type of the application


def _is_near(sent: datetime, found: datetime) -> bool:
    return (sent.tzinfo is None) == (found.tzinfo is None) and abs(sent - found) < _SHORT


def _rounded(number: float) -> float:
    """Return a number as a ``float`` of Avro; infinity if it is too large."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        return math.nan
