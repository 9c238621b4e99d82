"""What dialogs do, per minute: by hand, and on a real Kafka, computed again and again."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it
from pyspark.testing import assertDataFrameEqual

from conversations.config import Kafka
from conversations.kafka.clients import describe_topics, make_admin
from conversations.protocol.topics import metrics_topic
from conversations_ops.console.times import MINUTE, minute_of
from spark_jobs.dialog_metrics import KEY, main, transform
from spark_jobs.running.day_files import DayFiles
from tests.spark.support.queues import Queues, Talk
from tests.spark.support.troubled_services import Troubles

START = datetime(2026, 9, 1, 12, tzinfo=UTC)
SCHEMA = (
    "conversation_id string, to_target boolean, sequence bigint, kind string, appended_at timestamp, service string,"
    " contract string, code int, expires_at timestamp"
)
SHOWN = ("begun", "messages", "ended", "errored", "expired", "replied", "open")


def at(minute: float) -> datetime:
    return START + timedelta(minutes=minute)


class Said:
    """Messages of dialogs with "desk"."""

    def __init__(self) -> None:
        self.rows: list[tuple[Any, ...]] = []

    def __call__(
        self, dialog: str, minute: float, number: int | None = 0, kind: str = "MESSAGE", *, back: bool = False,
        code: int = 0, service: str = "desk", expires: float | None = None,
    ) -> None:  # fmt: skip
        until = None if expires is None else at(expires)
        self.rows.append((dialog, not back, number, kind, at(minute), service, "Tasks", code, until))

    def frame(self, spark: SparkSession) -> DataFrame:
        return spark.createDataFrame(self.rows, SCHEMA)


def said(spark: SparkSession) -> DataFrame:
    say = Said()
    for name, seconds in (("a", 6), ("b", 12), ("c", 60)):  # three that are answered, the last in the next minute
        say(name, 0)
        say(name, seconds / 60, back=True)
        say(name, 1.5, 1, back=True)
    say("a", 2.0, 1, "END")
    say("b", 2.5, 2, "ERROR", back=True, code=1404)
    say("b", 2.6, 1, "END")  # over already
    say("c", 2.9, None, "ERROR", code=-8462)
    say("d", 1, expires=3.5)  # its lifetime ends it
    say("e", 2, 5)  # began before what is read
    say("e", 2.2, 3, back=True)  # so this need not be its first reply
    say("e", 3, 6, "END")
    say("f", 3, service="till")
    say("g", 4.1)  # stays open
    say("h", 9)
    return say.frame(spark)


def shown(rows: list[Row]) -> dict[tuple[str, int], tuple[Any, ...]]:
    """By service and minute: ``SHOWN`` and the backlog."""
    return {
        (row.service, int((row.minute.astimezone(UTC) - START) / MINUTE)): (*(row[name] for name in SHOWN), row.backlog)
        for row in rows
    }


def test_every_minute_says_what_happened_in_it(spark: SparkSession) -> None:
    messages = said(spark).localCheckpoint()
    backlog = spark.createDataFrame(
        [("desk", "Tasks", 7), ("shop", "Tasks", 2)], "service string, contract string, backlog bigint"
    )
    found = transform(messages, at(0), at(6), backlog).localCheckpoint()
    rows = found.collect()
    assert shown(rows) == {
        ("desk", 0): (3, 5, 0, 0, 0, 2, 3, None),
        ("desk", 1): (1, 5, 0, 0, 0, 1, 4, None),
        ("desk", 2): (0, 2, 1, 2, 0, 0, 1, None),
        ("desk", 3): (0, 0, 1, 0, 1, 0, 0, None),
        ("desk", 4): (1, 1, 0, 0, 0, 0, 1, None),
        ("desk", 5): (0, 0, 0, 0, 0, 0, 1, 7),
        ("till", 3): (1, 1, 0, 0, 0, 0, 1, None),
        ("till", 4): (0, 0, 0, 0, 0, 0, 1, None),
        ("till", 5): (0, 0, 0, 0, 0, 0, 1, None),
        ("shop", 5): (0, 0, 0, 0, 0, 0, 0, 2),
    }
    desk = {int((row.minute.astimezone(UTC) - START) / MINUTE): row for row in rows if row.service == "desk"}
    times = {number: (row.reply_p50, row.reply_p99, row.end_p50, row.end_p99) for number, row in desk.items()}
    assert times[0] == pytest.approx((6, 12, None, None))
    assert times[1] == pytest.approx((60, 60, None, None))
    assert times[2] == pytest.approx((None, None, 150, 174))
    assert times[3] == pytest.approx((None, None, 150, 150)), (
        "of the one that expired; the other's beginning is not known"
    )
    assert [desk[number].errors for number in (2, 3)] == [{-8462: 1, 1404: 1}, {}]

    part = found.where("minute >= '2026-09-01 12:02:00' and minute < '2026-09-01 12:04:00'")
    assertDataFrameEqual(transform(messages, at(2), at(4)), part)
    assertDataFrameEqual(transform(messages.where("appended_at < '2026-09-01 12:04:00'"), at(2), at(4)), part)


def published(kafka: Kafka) -> dict[str, dict[str, Any]]:
    """What the topic of metrics says now, by key."""
    topic, found = metrics_topic(kafka.namespace), {}
    consumer = Consumer({
        "bootstrap.servers": kafka.bootstrap, "group.id": "test", "enable.auto.commit": False, "enable.partition.eof": True,
    })  # fmt: skip
    consumer.assign([TopicPartition(topic, 0, 0)])
    while (record := consumer.poll(30)) is not None and record.error() is None:
        found[(record.key() or b"").decode()] = json.loads(record.value() or b"")
    consumer.close()
    return found


@pytest.mark.slow
@pytest.mark.kafka
def test_a_range_that_is_computed_again_says_the_same_once(
    spark: SparkSession, kafka: Kafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    queues, talk = Queues(kafka), Talk()
    for envelope in (talk.ask(0), talk.ask(0), talk.answer(0), talk.error(1, 1404)):
        queues.say(envelope)
    queues.say(Talk().ask(0))
    now = datetime.now(UTC)
    until = minute_of(now) + MINUTE
    range_ = ["--since", f"{until - 3 * MINUTE:%Y-%m-%dT%H:%M}", "--until", f"{until:%Y-%m-%dT%H:%M}"]
    where = ["--bootstrap", kafka.bootstrap, "--namespace", kafka.namespace, "--json"]
    out = str(tmp_path / "metrics")
    told = []
    for lookback in ([], ["--lookback", "1h"]):
        assert main([*where, *range_, *lookback, "--out", out, "--publish"]) == 0
        told.append(json.loads(capsys.readouterr().out))
    assert told[0] == told[1]
    (pair,) = told[0]["pairs"]
    assert [pair[name] for name in ("service", "contract", *SHOWN)] == ["loans", "Loans", 2, 3, 0, 1, 0, 1, 1]
    rows = spark.read.parquet(out).drop("day").collect()
    assert len(rows) == told[0]["rows"] == pair["minutes"] <= 3
    topic = published(kafka)
    assert len(topic) == len(rows)
    for row in rows:
        minute = row.minute.astimezone(UTC)
        value = topic[f"loans/Loans/{minute:%Y-%m-%dT%H:%M:%SZ}"]
        assert datetime.fromisoformat(value.pop("minute")) == minute
        expected = row.asDict()
        expected["errors"] = {str(code): count for code, count in expected["errors"].items()}
        assert value == {name: it for name, it in expected.items() if name != "minute"}
    assert sum(row.begun for row in rows) == 2
    (described,) = describe_topics(make_admin(kafka), kafka, [metrics_topic(kafka.namespace)]).values()
    assert described is not None
    assert described.partitions == 1
    assert main([*where, "--since", "2026-09-02", "--until", "2026-09-01"]) == 2
    assert "is not before --until" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.kafka
def test_the_backlog_is_what_nobody_has_read(
    spark: SparkSession, troubles: Troubles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(troubles.options("--json")) == 0
    pairs = {it["service"]: it for it in json.loads(capsys.readouterr().out)["pairs"]}
    assert {name: it["backlog"] for name, it in pairs.items() if it["backlog"]} == {"sleeper": 2}, (
        "markers are no messages"
    )

    out, until = str(tmp_path / "metrics"), minute_of(datetime.now(UTC)) + MINUTE
    range_ = troubles.options("--json", "--out", out, "--until", f"{until:%Y-%m-%dT%H:%M}")
    assert main([*range_, "--service", "sleeper"]) == 0
    assert [it["backlog"] for it in json.loads(capsys.readouterr().out)["pairs"]] == [None], (
        "who knows what it was then"
    )
    files = DayFiles(spark, out, KEY, "minute")
    rows = spark.read.parquet(out).drop("day")
    wrong = (
        rows.orderBy("minute")
        .limit(1)
        .withColumns({"begun": F.lit(99).cast("bigint"), "backlog": F.lit(5).cast("bigint")})
        .select(*rows.columns)
    )
    files.replace(wrong.localCheckpoint())
    assert main(range_) == 0
    found = {it["service"]: it for it in json.loads(capsys.readouterr().out)["pairs"]}
    assert {name: (it["begun"], it["messages"], it["open"]) for name, it in found.items()} == {
        "desk": (6, 15, 4), "till": (1, 2, 1), "sleeper": (1, 2, 1)
    }  # fmt: skip
    kept = spark.read.parquet(out).where("backlog is not null").collect()
    assert [(row.service, row.backlog, row.begun) for row in kept] == [("sleeper", 5, 1)], "what was found is kept"
