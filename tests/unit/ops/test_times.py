"""Spans and minutes on the command line."""

from datetime import UTC, datetime, timedelta

import pytest

from conversations_ops.console.times import ahead, instant, minute, moment, span, written


def test_spans_are_read_and_written() -> None:
    assert span("1h30m") == timedelta(minutes=90)
    assert span("7d") == timedelta(days=7)
    assert span("0s") == timedelta(0)
    assert written(timedelta(days=3, hours=4, minutes=5)) == "3d4h"
    assert written(timedelta(minutes=2, seconds=5)) == "2m5s"
    assert written(timedelta(hours=1)) == "1h0m"
    assert written(timedelta(0)) == "0s"


def test_a_time_ahead_has_its_distance() -> None:
    assert ahead(7_500_000_000, 0) == "in 2h5m (1970-01-01T02:05:00+00:00)"
    assert ahead(7_500_000_000, 7_500) == "now (1970-01-01T02:05:00+00:00)"
    assert ahead(1 << 61, 0) == f"in 26687997d19h ({1 << 61} us)"


@pytest.mark.parametrize("text", ["", "5", "h", "1.5h", "-1h", "99999999d", "1 h"])
def test_what_is_no_span_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write it as 90s, 15m, 1h30m or 7d"):
        span(text)


def test_minutes_are_read_in_utc() -> None:
    assert minute("2026-09-01") == datetime(2026, 9, 1, tzinfo=UTC)
    assert minute("2026-09-01T12:30") == minute("2026-09-01T14:30+02:00") == datetime(2026, 9, 1, 12, 30, tzinfo=UTC)
    with pytest.raises(ValueError, match="is not the start of a minute"):
        minute("2026-09-01T12:30:01")
    with pytest.raises(ValueError, match="is no time"):
        minute("yesterday")


def test_times_are_read_and_written_in_utc() -> None:
    assert instant("2026-09-01") == datetime(2026, 9, 1, tzinfo=UTC)
    assert instant("2026-09-01T14:30:05+02:00") == datetime(2026, 9, 1, 12, 30, 5, tzinfo=UTC)
    assert moment(1_000_000) == "1970-01-01T00:00:01+00:00"
    assert moment(2**70) == f"{2**70} us"
