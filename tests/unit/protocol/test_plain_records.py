"""Records of plain topics: ids, times and copies."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from conversations.protocol.plain_records import (
    HEADERS_BYTES,
    KEY,
    OFFSET,
    PART,
    PART_OF,
    PARTITION,
    TOPIC,
    WHY,
    WHY_LIMIT,
    PlainRecord,
    Source,
    copies,
    time_of,
    why_copied,
)


def test_the_id_of_a_record_never_changes() -> None:
    """Other releases must find the same id, or a record would begin two dialogs."""
    found = Source("conv", "web", "shop.orders", "Ols2NdXrTyGh3cTB0taNHA").id_of(3, 1_234)
    assert found == UUID("b2787ea7-19ad-5dfc-bcb0-41422c67d594")
    assert found.version == 5


@pytest.mark.parametrize(
    ("kind", "milliseconds", "expected"),
    [
        (1, 1_000, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        (2, 0, datetime(1970, 1, 1, tzinfo=UTC)),
        (0, 1_000, None),
        (1, -1, None),
        (1, (1 << 63) - 1, None),
    ],
)
def test_a_time_that_no_record_can_have_is_none(kind: int, milliseconds: int, expected: datetime | None) -> None:
    assert time_of(kind, milliseconds) == expected


def test_a_copy_names_its_record() -> None:
    record = PlainRecord(topic="t", partition=2, offset=7, key=b"k", value=None, headers=(("a", None),))
    ((value, headers),) = copies(record, "no \ud800" + "x" * 9_000)
    assert value is None
    assert dict(headers) | {WHY: b""} == {WHY: b"", TOPIC: b"t", PARTITION: b"2", OFFSET: b"7", KEY: b"k", "a": b""}
    assert len(dict(headers)[WHY]) < WHY_LIMIT + 10
    assert why_copied(None, headers).startswith("no \\ud800")
    assert not why_copied(b"k", headers)
    assert not why_copied(None, [(WHY, b"told")])
    assert not why_copied(None, None)


def test_a_large_record_is_copied_in_parts_and_headers_have_a_limit() -> None:
    many = tuple((f"h{n}", bytes(1_000)) for n in range(20))
    found = copies(PlainRecord(topic="t", key=bytes(1_001), value=bytes(1_000_001), headers=many), "no")
    assert [dict(headers)[PART] for _, headers in found] == [b"1/3", b"2/3", b"3/3"]
    assert [dict(headers)[PART_OF] for _, headers in found] == [b"key", b"value", b"value"]
    assert [len(value or b"") for value, _ in found] == [1_001, 1_000_000, 1]
    assert all(
        sum(len(content) for name, content in headers if name[0] == "h") <= HEADERS_BYTES for _, headers in found
    )
