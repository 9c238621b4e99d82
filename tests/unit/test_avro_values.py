"""Avro bodies: what arrives is what was sent, or nothing is sent."""

from collections import deque
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from conversations.bodies import BodyCodec, codec_of
from conversations.errors import InvalidBody
from conversations.protocol.contract import MessageType

NOON = datetime(2026, 3, 1, 12, 0, 0, 123_456, UTC)
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
LOCAL = {"type": "long", "logicalType": "local-timestamp-micros"}
DATE = {"type": "int", "logicalType": "date"}
TIME = {"type": "int", "logicalType": "time-millis"}
CENTS = {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}
NAMES = {"type": "array", "items": "string"}
POINT = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "int"}]}


def codec(kind: Any) -> BodyCodec:
    return codec_of(MessageType("Value", {"type": "record", "name": "Value", "fields": [{"name": "it", "type": kind}]}))


CHANGED = {
    "long": ("long", 1.9),
    "boolean": ("boolean", "no"),
    "none": ("boolean", None),
    "float": ("float", 1e300),
    "tiny": ("float", 1e-60),
    "digits": ("double", 2**53 + 1),
    "fraction of a time stamp": (MILLIS, 1764563000123.9),
    "fraction of a date": (DATE, 1.9),
    "fraction of a time": (TIME, 1.9),
    "decimal": ("long", Decimal("1.1")),
    "union": (["null", "double", "long"], 2**60 + 1),
    "naive": (MILLIS, NOON.replace(tzinfo=None)),
    "zone": (LOCAL, NOON.astimezone(timezone(timedelta(hours=2)))),
    "date": (DATE, NOON),
    "text": (NAMES, "Ada"),
    "mapping": (NAMES, {"a": "b"}),
    "inside": ({"type": "map", "values": {"type": "array", "items": "int"}}, {"a": [1, 2.5]}),
}


@pytest.mark.parametrize(("kind", "value"), CHANGED.values(), ids=CHANGED)
def test_a_value_that_would_arrive_as_another_one_is_refused(kind: Any, value: Any) -> None:
    """The error names the field and both values."""
    with pytest.raises(InvalidBody, match=r"Value: it[.\w]*: .* would arrive as "):
        codec(kind).encode({"it": value})


SAME = {
    "number in a float": ("float", 123_456_789, 123_456_792.0),
    "not a number": ("float", float("nan"), pytest.approx(float("nan"), nan_ok=True)),
    "whole number": (MILLIS, 5.0, datetime(1970, 1, 1, 0, 0, 0, 5_000, UTC)),
    "uuid without hyphens": ({"type": "string", "logicalType": "uuid"}, UUID(int=7).hex, UUID(int=7)),
    "branch of an array": (["null", NAMES], ("array", ["a"]), ["a"]),
    "branch of two": (["null", NAMES], ("array", ("a", "b")), ["a", "b"]),
    "long": ("long", 2**62, 2**62),
    "whole": ("double", 3, 3.0),
    "digits": ("float", 0.1, pytest.approx(0.1)),
    "number of digits": ("double", Decimal("1.1"), 1.1),
    "infinity": ("double", float("inf"), float("inf")),
    "millis": (MILLIS, NOON, NOON.replace(microsecond=123_000)),
    "zone": (MILLIS, NOON.astimezone(timezone(timedelta(hours=2))), NOON.replace(microsecond=123_000)),
    "number": (MILLIS, 5, datetime(1970, 1, 1, 0, 0, 0, 5_000, UTC)),
    "local": (LOCAL, NOON.replace(tzinfo=None), NOON.replace(tzinfo=None)),
    "date": (DATE, date(2026, 3, 1), date(2026, 3, 1)),
    "time": (TIME, time(1, 2, 3, 4_567), time(1, 2, 3, 4_000)),
    "cents": (CENTS, Decimal("1.5"), Decimal("1.50")),
    "uuid": ({"type": "string", "logicalType": "uuid"}, UUID(int=7), UUID(int=7)),
    "tuple": (NAMES, ("a", "b"), ["a", "b"]),
    "deque": (NAMES, deque(["a"]), ["a"]),
    "set": (NAMES, {"a"}, ["a"]),
    "branch": (["null", POINT], ("Point", {"x": 1}), {"x": 1}),
    "nothing": (["null", "int"], None, None),
}


@pytest.mark.parametrize(("kind", "value", "arrives"), SAME.values(), ids=SAME)
def test_what_a_schema_asks_for_is_no_difference(kind: Any, value: Any, arrives: Any) -> None:
    found = codec(kind)
    assert found.decode(found.encode({"it": value})) == {"it": arrives}
