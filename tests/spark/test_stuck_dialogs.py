"""Dialogs that do not go on: each reason by hand, and those of services in trouble."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql import SparkSession

from conversations.protocol.endpoint import NEVER
from conversations.protocol.park_row import QUEUE_ON, ParkRow
from conversations.protocol.partition_row import PartitionRow
from conversations.protocol.states import State
from spark_jobs.stuck_dialogs import Bounds, main, queues_off, transform
from tests.spark.support.state_rows import StateRows
from tests.spark.support.troubled_services import Troubles

NOW = datetime(2026, 9, 1, 12, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
SHOW, LIST = "conversations dead-letters show", "conversations retries list desk"
OF_PEER, OF_DESK = "conversations queue show clerk", "conversations queue show desk"


def words(row: Any) -> list[str]:
    return [it.reason for it in row.reasons]


def test_every_reason_is_given(spark: SparkSession) -> None:
    rows = StateRows(NOW)
    expected: dict[str, tuple[list[str], str | None, int]] = {}

    def dialog(name: str, *reasons: str, next: str | None = None, behind: int = 0, ago: timedelta = HOUR) -> UUID:  # noqa: A002
        made = rows.begin(ago, len(expected))
        expected[str(made)] = ([*reasons], next, behind)
        return made

    rows.endpoint(dialog("fine"), sent=3, acked=3, expires_in=2 * HOUR)
    rows.tombstone(dialog("over", ago=9 * DAY))
    rows.endpoint(dialog("old", "old", ago=25 * HOUR))
    rows.endpoint(dialog("near", "lifetime-near"), expires_in=59 * MINUTE)
    rows.endpoint(dialog("expired and old", "lifetime-near", "old", ago=2 * DAY), expires_in=-HOUR)
    held = dialog("held", "held", next=f"{SHOW} desk.queue-0-7", behind=3)
    rows.endpoint(held)
    rows.park(held, ParkRow(due=NEVER, first=2, next=6, failure="Broken: a", since=rows.since(MINUTE)))
    for name in ("", "reminder"):
        timer = dialog("timer", "held", next="")
        expected[str(timer)] = (["held"], f"{SHOW} desk.timer-{timer}-target{name and '-'}{name}", 0)
        rows.endpoint(timer, timer=name)
        rows.park(timer, ParkRow(due=NEVER, failure="Broken: t", since=rows.since(MINUTE)), timer=name)
    for ago, reasons in ((4 * MINUTE, []), (6 * MINUTE, ["retrying"])):
        again = dialog("again", *reasons, next=LIST if reasons else None, behind=1 if reasons else 0)
        rows.endpoint(again)
        rows.park(again, ParkRow(rows.since(-MINUTE), 0, 2, failure="Broken: b", since=rows.since(ago)), offset=8)
    for service, failure, ago, reasons, command in (
        ("desk", "", MINUTE, ["queue-off"], OF_DESK), ("desk", "Broken: c", MINUTE, ["queue-off"], f"{SHOW} desk.queue-0-9"),
        ("shop", "", MINUTE, [], None), ("shop", "", HOUR, ["queue-off"], "conversations queue show shop"),
    ):  # fmt: skip
        off = dialog("off", *reasons, next=command)
        rows.endpoint(off, service)
        rows.park(off, ParkRow(QUEUE_ON, 0, 1, failure=failure, since=rows.since(ago)), service, offset=9)
    rows.queue(PartitionRow(off="operator", off_by="ada", off_reason="INC-1", off_since=rows.since(HOUR)))
    rows.queue(PartitionRow(), "shop")
    late = dialog("delayed", "delayed", next=OF_PEER)
    rows.endpoint(late)
    rows.delayed(late, HOUR, 4)
    rows.delayed(late, MINUTE, 5)
    rows.delayed(dialog("delayed, and over"), HOUR, 6)
    just = dialog("just delayed")
    rows.endpoint(just)
    rows.delayed(just, MINUTE, 7)
    rows.endpoint(dialog("not acknowledged for a minute"), sent=3, acked=1)
    for state in (State.DISCONNECTED_OUTBOUND, State.DISCONNECTED_INBOUND, State.ERROR):
        rows.endpoint(dialog("whose peer ended needs no acknowledgement"), state=state, sent=3, acked=1)

    frame = rows.frame(spark)
    found = {row.conversation_id: row for row in transform(frame, Bounds(NOW)).collect()}
    wanted = {name: it for name, it in expected.items() if it[0]}
    assert {name: (words(row), row.next, row.behind) for name, row in found.items()} == wanted
    one: Any = found[str(late)]
    assert (one.service, one.contract, one.peer, one.state, one.initiator) == (
        "desk",
        "Tasks",
        "clerk",
        "CONVERSING",
        False,
    )
    assert one.reasons[0].what == "2 waiting for the queue of the peer"
    assert one.since.astimezone(UTC) == one.reasons[0].since.astimezone(UTC) == NOW - HOUR
    why: Any = found[str(held)].reasons[0]
    assert why.what == "Task Broken: a"
    assert [tuple(row)[:5] for row in queues_off(frame).collect()] == [("desk", 0, "operator", "ada", "INC-1")]

    quick = transform(frame, Bounds(NOW, waiting_for=timedelta(seconds=30))).where(
        "reasons[0].reason = 'unacknowledged'"
    )
    silent = [(row.state, row.reasons[0].what, row.next) for row in quick.orderBy("state").collect()]
    assert silent == [(state, "2 not acknowledged", OF_PEER) for state in ("CONVERSING", "DISCONNECTED_OUTBOUND")]


@pytest.mark.slow
@pytest.mark.kafka
def test_dialogs_of_services_in_trouble(
    spark: SparkSession, troubles: Troubles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "stuck")
    assert main(troubles.options("--waiting-for", "0s", "--json", "--out", out)) == 1
    told = json.loads(capsys.readouterr().out)
    names = {dialog: name for name, dialog in troubles.dialogs.items()}
    found = {
        (names[it["conversation_id"]], it["service"]): ([one["reason"] for one in it["reasons"]], it["next"])
        for it in told["dialogs"]
    }
    letters = {it["letter"] for it in told["dialogs"] if it["service"] == "desk"}
    held, retrying, timer = (found[name, "desk"] for name in ("held", "retrying", "timer"))
    assert held[0] == timer[0] == ["held"]
    assert {held[1], timer[1]} <= {f"{SHOW} {letter}" for letter in letters}
    assert retrying == (["retrying"], LIST)
    assert found["off", "till"][0] == ["queue-off"]
    assert found["unread", "clerk"] == (["unacknowledged"], "conversations queue show sleeper")
    assert found["nowhere", "clerk"][0][0] == "delayed"
    assert not [name for name, _ in found if name in ("fine", "refused")]
    assert [(it["service"], it["partition"], it["by"]) for it in told["queues_off"]] == [("till", 0, "Task")]
    assert told["stuck"] == len(told["dialogs"]) == spark.read.parquet(out).count()

    assert main(troubles.options("--service", "desk", "--most", "1", "--waiting-for", "1h")) == 1
    text = capsys.readouterr().out
    assert "2 sides of dialogs are stuck; 1 more, see --most" in text
    assert main(troubles.options("--service", "sleeper")) == 0
    assert capsys.readouterr().out == "no dialog is stuck\n"
    with pytest.raises(SystemExit):
        main(troubles.options("--older-than", "yesterday"))
    assert "is no span of time: write it as 90s, 15m, 1h30m or 7d" in capsys.readouterr().err
