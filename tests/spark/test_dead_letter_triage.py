"""Dead letters in groups: by hand, and those of services in trouble."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from conversations.protocol.endpoint import NEVER
from conversations.protocol.park_row import ParkRow
from spark_jobs.dead_letter_triage import Asked, main, transform
from tests.spark.support.state_rows import StateRows
from tests.spark.support.troubled_services import Troubles

NOW = datetime(2026, 9, 1, 12, tzinfo=UTC)
SCHEMA = (
    "letter string, service string, reason string, exception string, exception_message string, type string, contract string,"
    " peer string, failed_at timestamp, written_at timestamp, part string, offset bigint"
)
GROUPS = (
    "service string, reason string, exception string, type string, contract string, peer string, new boolean, count bigint,"
    " open bigint, parked_behind bigint, first timestamp, last timestamp, recent bigint, before bigint, letter string,"
    " message string, next string"
)


def minutes(ago: int) -> datetime:
    return NOW - timedelta(minutes=ago)


def letter(
    number: int,
    ago: int,
    message: str,
    part: str | None = None,
    *,
    again: int = 0,
    exception: str = "shop.errors.Broken",
) -> tuple[Any, ...]:
    return (
        f"desk.queue-0-{number}", "desk", "handler-failed", exception, message, "Task", "Tasks", "clerk",
        minutes(ago), minutes(0), part, 2 * number + again,
    )  # fmt: skip


def aside(number: int, ago: int) -> tuple[Any, ...]:
    return (
        f"desk.commands-0-{number}", "desk", "set-aside", None, "no Avro", None, None, None, minutes(ago), minutes(ago), None, number,
    )  # fmt: skip


def test_letters_are_counted_in_their_groups(spark: SparkSession) -> None:
    rows = StateRows(NOW)
    held, over = rows.begin(timedelta(hours=9), 1), rows.begin(timedelta(hours=9), 2)
    rows.endpoint(held)
    rows.park(held, ParkRow(due=NEVER, first=2, next=6, failure="Broken: c"), offset=3)
    rows.tombstone(over)
    rows.park(over, ParkRow(due=NEVER, first=0, next=9, failure="Broken: b"), offset=2)
    rows.letter("conv.desk.queue", 1)
    rows.letter("conv.desk.commands", 5)
    rows.letter("conv.desk.queue", 5)
    letters = [
        letter(1, 200, "a"), letter(2, 110, "b"), letter(3, 50, "c"), letter(4, 10, "d"),
        letter(9, 300, "in parts", "1/2"), letter(9, 300, "in parts", "2/2"), aside(5, 59),
    ]  # fmt: skip
    frame, state = spark.createDataFrame(letters, SCHEMA), rows.frame(spark)
    group = ("desk", "handler-failed", "Broken", "Task", "Tasks", "clerk")
    wrong = (
        "desk", "set-aside", None, None, None, None, True, 1, 1, 0, minutes(59), minutes(59), 1, 0, "desk.commands-0-5",
        "no Avro", "conversations dead-letters list desk --detached",
    )  # fmt: skip
    show = "conversations dead-letters show desk.queue-0-3"
    everything = (*group, False, 5, 2, 3, minutes(300), minutes(10), 2, 1, "desk.queue-0-3", "c", show)
    found = transform(frame, state, Asked(NOW))
    assertDataFrameEqual(found, spark.createDataFrame([everything, wrong], GROUPS))
    lately = Asked(NOW, window=timedelta(minutes=30), new_within=timedelta(minutes=30), since=minutes(20))
    last = (*group, False, 1, 0, 0, minutes(300), minutes(10), 1, 1, "desk.queue-0-4", "d", None)
    assertDataFrameEqual(transform(frame, state, lately), spark.createDataFrame([last], GROUPS))


def test_a_group_is_as_old_as_its_first_letter_though_all_of_them_were_tried_again(spark: SparkSession) -> None:
    letters = [
        letter(1, 4_000, "a"), letter(1, 5, "a", again=1), letter(2, 3_000, "b"),
        letter(2, 4, "b", again=1, exception="shop.errors.Torn"),
    ]  # fmt: skip
    found = transform(spark.createDataFrame(letters, SCHEMA), StateRows(NOW).frame(spark), Asked(NOW)).collect()
    facts = {row.exception: (row.new, row["count"], row["first"].astimezone(UTC), row.recent) for row in found}
    assert facts == {"Broken": (False, 1, minutes(4_000), 1), "Torn": (True, 1, minutes(4), 1)}


@pytest.mark.slow
@pytest.mark.kafka
def test_letters_of_services_in_trouble(
    spark: SparkSession, troubles: Troubles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "groups")
    assert main(troubles.options("--json", "--out", out)) == 1
    told = json.loads(capsys.readouterr().out)
    found = {(it["service"], it["reason"], it["exception"]): it for it in told["groups"]}
    assert {name: (it["count"], it["open"], it["parked_behind"]) for name, it in found.items()} == {
        ("desk", "handler-failed", "ValueError"): (1, 1, 2),
        ("desk", "handler-failed", "KeyError"): (1, 1, 0),
        ("desk", "handler-failed", "PermissionError"): (1, 1, 0),
        ("desk", "set-aside", None): (1, 1, 0),
        ("desk", "foreign", None): (1, 1, 0),
    }
    held = found["desk", "handler-failed", "ValueError"]
    assert (held["new"], held["message"], held["recent"]) == (True, "cannot hold", 1)
    assert held["next"] == f"conversations dead-letters show {held['letter']}"
    assert (told["letters"], told["open"], told["new"]) == (5, 5, 5)
    kept = spark.read.parquet(out)
    assert {row.letter for row in kept.collect()} == {it["letter"] for it in told["groups"]}
    assert kept.select("taken_at").distinct().count() == 1

    assert main(troubles.options("--service", "desk", "--new-within", "0s")) == 0
    text = capsys.readouterr().out
    assert "5 groups, 0 new" in text
    assert "NEW " not in text
    assert main(troubles.options("--service", "desc")) == 2
    assert "no service 'desc'; it has: clerk, desk" in capsys.readouterr().err
