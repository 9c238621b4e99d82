"""Values as people write them."""

from datetime import timedelta
from typing import Any

import pytest

from conversations.durations import DAY
from conversations_ops.settings.names import SETTINGS
from conversations_ops.settings.values import read, written


@pytest.mark.parametrize("name", SETTINGS)
def test_what_is_written_down_is_read_again(name: str) -> None:
    setting = SETTINGS[name]
    value = read(setting, written(setting, setting.default))
    assert value == setting.default or (name == "worker.brake" and value is True)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("periods.lifetime", "2d", 2 * DAY), ("periods.lifetime", "1.5 d", 36 * 3_600_000_000), ("periods.grace", "90 s", 90_000_000),
        ("worker.patience", "0 s", timedelta(0)), ("worker.patience", "250 ms", timedelta(seconds=0.25)),
        ("worker.step", "2 min", timedelta(minutes=2)), ("limits.body_bytes", "500_000", 500_000), ("limits.body_bytes", "500 kB", 500_000),
        ("limits.held_bytes", "1.5 MiB", 1_572_864), ("worker.batch", "1_000", 1_000), ("worker.rollbacks", "never", None),
        ("brake.share", "0", 0.0), ("brake.share", "0.25", 0.25), ("worker.brake", "off", False), ("worker.brake", "on", True), ("worker.log_format", "json", "json"),
    ],
)  # fmt: skip
def test_times_and_sizes_have_units(name: str, text: str, value: Any) -> None:
    assert read(SETTINGS[name], text) == value


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("periods.lifetime", "86400", "a time has a unit"), ("periods.lifetime", "2 weeks", "a time has a unit"),
        ("periods.lifetime", "64 MB", "a time has a unit"), ("periods.lifetime", "-2 d", "a time has a unit"),
        ("periods.lifetime", "0 s", "at least 1 us"), ("worker.step", "0.1 us", "no whole number of us"),
        ("worker.step", "999999999999999 d", "the time is too long"), ("limits.body_bytes", "2 d", "for instance 64 MB"),
        ("limits.body_bytes", "1 mb", "for instance 64 MB"), ("limits.body_bytes", "0.3 B", "no whole number of B"),
        ("limits.body_bytes", "0", "at least 1 B"), ("worker.batch", "5 s", "a whole number"), ("worker.batch", "1.5", "a whole number"),
        ("worker.batch", "0", "at least 1"), ("worker.batch", "never", "a whole number"), ("worker.batch", "²", "a whole number"),
        ("brake.share", "50 %", "from 0 to 1"), ("brake.share", "1.5", "from 0 to 1"), ("brake.share", "nan", "from 0 to 1"),
        ("worker.brake", "yes", "on or off"), ("worker.brake", "never", "on or off"), ("worker.rollbacks", "", "a whole number"), ("worker.log_format", "xml", "text or json"),
    ],
)  # fmt: skip
def test_a_wrong_unit_or_type_is_told_with_a_right_one(name: str, text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read(SETTINGS[name], text)
