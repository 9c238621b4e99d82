"""The metrics of Spark in the read model, and the charts of them; all of it without Kafka."""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from conversations.memory.record import MemoryRecord
from conversations.ports import Out
from conversations_ops.read_model.file import File
from conversations_ops.read_model.minutes import (
    COLUMNS,
    MINUTE,
    Slot,
    newest_minute,
    services_with_minutes,
    slots,
    write_minutes,
)
from conversations_ops.web.charts import CHARTS, Chart, charts, seconds, short_number

NINE = 1_764_147_600
"""2025-11-26T09:00:00Z."""


def plain(key: bytes, value: bytes | None, offset: int = 0) -> MemoryRecord:
    return MemoryRecord("conv.metrics", 0, offset, 0, Out("conv.metrics", 0, key, value, []))


def record(service: str, minute: str, offset: int = 0, contract: str = "Orders", **values: object) -> MemoryRecord:
    return plain(f"{service}/{contract}/{minute}".encode(), json.dumps(values).encode(), offset)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[File]:
    with File(tmp_path / "model") as made:
        yield made


def write(file: File, *records: MemoryRecord) -> None:
    with file.transaction() as connection:
        write_minutes(connection, records)


def test_a_slot_adds_counts_and_has_the_newest_level_and_the_highest_quantile(file: File) -> None:
    write(
        file,
        record("shop", "2025-11-26T09:00:00Z", begun=3, messages=9, open=2, reply_p95=0.5, backlog=None),
        record("shop", "2025-11-26T09:01:00Z", begun=1, messages=1, open=5, reply_p95=0.25),
        record("shop", "2025-11-26T09:01:00Z", contract="Other", begun=1, open=1, backlog=7),
        record("desk", "2025-11-26T09:01:00Z", begun=10, messages=10, open=1, reply_p95=9),
        record("shop", "2025-11-26T09:02:00Z", begun=4),
        record("shop", "2025-11-26T08:59:00Z", begun=100),
    )
    first, second, third = slots(file, NINE, 2 * MINUTE, 3, "shop")
    assert (first.begin, second.begin) == (NINE, NINE + 120)
    assert {name: it for name, it in first.values.items() if it is not None} == {
        "begun": 5, "messages": 10, "open": 6, "backlog": 7, "reply_p95": 0.5,
    }  # fmt: skip
    assert second.values["begun"] == 4
    assert third.values == dict.fromkeys(COLUMNS)
    assert slots(file, NINE, 2 * MINUTE, 1)[0].values["begun"] == 15
    assert services_with_minutes(file) == ["desk", "shop"]
    assert newest_minute(file) == NINE + 120


def test_a_minute_that_is_computed_again_takes_the_place_of_the_old_one(file: File) -> None:
    assert newest_minute(file) is None
    write(file, record("shop", "2025-11-26T09:00:00Z", begun=3), record("shop", "2025-11-26T09:00:00Z", 1, begun=4))
    assert slots(file, NINE, MINUTE, 1)[0].values["begun"] == 4
    write(file, plain(b"shop/Orders/2025-11-26T09:00:00Z", None, 2))
    assert newest_minute(file) is None


@pytest.mark.parametrize(
    "key",
    [
        b"",
        b"\xff",
        b"shop",
        b"shop/Orders/soon",
        b"a/b/c/2025-11-26T09:00:00Z",
        b"shop/Orders/0001-01-01T00:00:00+14:00",
    ],
)
def test_a_record_with_another_key_is_left_out(file: File, key: bytes) -> None:
    write(file, plain(key, b'{"begun": 3}', 0))
    assert newest_minute(file) is None


@pytest.mark.parametrize("value", [b"", b"7", b"[" * 100_000, b"\xff", b"{"])
def test_a_record_that_is_no_row_is_left_out(file: File, value: bytes) -> None:
    write(file, plain(b"shop/Orders/2025-11-26T09:00:00Z", value, 0))
    assert newest_minute(file) is None


def test_a_value_that_is_no_number_is_not_known(file: File) -> None:
    odd = {
        "begun": "3",
        "messages": True,
        "open": [1],
        "ended": 10**30,
        "expired": -1,
        "errored": 4,
        "reply_p50": math.nan,
    }
    write(file, plain(b"shop/Orders/2025-11-26T09:00:00Z", json.dumps(odd).encode()))
    (only,) = slots(file, NINE, MINUTE, 1)
    assert {name for name, it in only.values.items() if it is not None} == {"errored"}
    assert charts([only], MINUTE)


def slot(at: int, **values: float) -> Slot:
    every: Mapping[str, float | None] = {name: values.get(name) for name in COLUMNS}
    return Slot(NINE + at * MINUTE, every)


def dialogs(*found: Slot, size: int = MINUTE) -> Chart:
    return charts(found, size)[0]


def test_a_line_has_a_gap_where_nothing_is_known_and_a_dot_for_a_lone_value() -> None:
    chart = dialogs(slot(0, begun=0), slot(1, begun=5), slot(2), slot(3, begun=10), slot(4))
    begun, ended, *_ = chart.lines
    assert begun.path == "M0.00 100.00L25.00 50.00M75.00 0.00h0.5"
    assert (begun.last, chart.top, ended.path, ended.last) == ("10", "10", "", "")
    assert (chart.begin, chart.end) == ("26 Nov 09:00", "26 Nov 09:05")


def test_counts_are_divided_by_the_minutes_of_a_slot() -> None:
    assert dialogs(slot(0, begun=60), size=15 * MINUTE).lines[0].last == "4"


@pytest.mark.parametrize(
    ("value", "top"), [(0, "1"), (1, "1"), (1.1, "2"), (3, "5"), (7, "10"), (99, "100"), (1_500, "2k")]
)
def test_the_edge_of_a_chart_is_a_round_number(value: float, top: str) -> None:
    assert dialogs(slot(0, begun=value)).top == top


def test_a_chart_without_a_value_is_empty() -> None:
    assert [it.is_empty for it in charts([slot(0), slot(1)], MINUTE)] == [True] * len(CHARTS)
    assert not dialogs(slot(0, begun=0)).is_empty


def test_numbers_are_written_for_people() -> None:
    assert [short_number(it) for it in (0, 0.25, 999, 1_234, 5e6, 7e12)] == [
        "0",
        "0.25",
        "999",
        "1.23k",
        "5M",
        "7e+03G",
    ]
    assert [seconds(it) for it in (0.012, 2.5, 119, 180)] == ["12 ms", "2.5 s", "119 s", "3 min"]
