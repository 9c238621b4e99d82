"""What of a topic's settings is wrong, and what is somebody's better choice."""

from datetime import timedelta

import pytest

from conversations.config import Periods
from conversations.kafka.topic_settings import SETTINGS, deviations, needed, wanted
from conversations.protocol import limits

DAY = 24 * 3600 * 1000


@pytest.mark.parametrize("kind", SETTINGS)
def test_no_topic_leaves_to_the_cluster_what_we_rely_on(kind: str) -> None:
    settings = wanted(kind)
    assert settings["message.timestamp.type"] == "LogAppendTime"
    assert int(settings["max.message.bytes"]) > limits.RECORD_BYTES
    assert settings["unclean.leader.election.enable"] == "false"
    policies = settings["cleanup.policy"].split(",")
    assert ("retention.ms" in settings) == ("retention.bytes" in settings) == ("delete" in policies)
    assert ("delete.retention.ms" in settings) == ("compact" in policies)


@pytest.mark.parametrize("kind", ["queue", "commands"])
def test_inputs_are_kept_for_longer_than_dialogs_live(kind: str) -> None:
    assert wanted(kind)["retention.ms"] == str(7 * DAY)
    long = timedelta(days=30)
    kept = int(wanted(kind, long)["retention.ms"])
    assert kept > int(needed(kind, long, Periods())["retention.ms"]) > 30 * DAY


@pytest.mark.parametrize("kind", SETTINGS)
@pytest.mark.parametrize("factor", [1, 100, 1440])
def test_what_apply_gives_is_all_that_a_worker_needs(kind: str, factor: int) -> None:
    for lifetime in (timedelta(0), timedelta(minutes=1), timedelta(days=400)):
        periods = Periods().scaled(factor)
        assert deviations("t", wanted(kind, lifetime, periods), needed(kind, lifetime, periods)) == []


@pytest.mark.parametrize(
    ("setting", "found", "want", "right"),
    [
        ("retention.ms", "100", "100", True),
        ("retention.ms", "101", "100", True),
        ("retention.ms", "99", "100", False),
        ("retention.ms", "-1", "100", True),
        ("retention.bytes", "1000000", "-1", False),
        ("retention.bytes", "-1", "-1", True),
        ("delete.retention.ms", "", "100", False),
        ("max.message.bytes", "500000", "2097152", False),
        ("cleanup.policy", "delete, compact", "compact,delete", True),
        ("cleanup.policy", "compact,delete", "compact", False),
        ("message.timestamp.type", "CreateTime", "LogAppendTime", False),
    ],
)
def test_more_is_as_good_where_more_is_safe(setting: str, found: str, want: str, right: bool) -> None:
    wrong = deviations("t", {setting: found}, {setting: want})
    assert (not wrong) == right
    if wrong:
        assert str(wrong[0]).startswith(f"t: {setting} is {found or 'not set'} and must be ")


def test_tuning_is_nobodys_need() -> None:
    for kind in SETTINGS:
        assert not needed(kind, timedelta(days=1), Periods()).keys() & {
            "segment.ms",
            "segment.bytes",
            "min.cleanable.dirty.ratio",
        }
