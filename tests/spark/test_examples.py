"""The code blocks of docs/spark.md run on a real Kafka, and read and write what the page says."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import to_json

from conversations.config import Kafka
from conversations.kafka.admin import apply
from conversations.kafka.follow import Follower
from conversations.protocol.command import Command, Send, decode_command
from conversations.protocol.topics import COMMANDS, service_topic
from conversations_ops.demo.aircraft_log import aircraft_log
from spark_jobs.archive import main as archive
from tests.spark.support.queues import LOANS, Queues, Talk
from tests.support.documents import block, with_words

pytestmark = pytest.mark.kafka


@pytest.fixture(autouse=True)
def _shop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the module ``shop.contracts`` of the page, which a reader has to write."""
    contracts = ModuleType("shop.contracts")
    contracts.LOANS = LOANS  # type: ignore[attr-defined]  # a module is filled by hand
    monkeypatch.setitem(sys.modules, "shop", ModuleType("shop"))
    monkeypatch.setitem(sys.modules, "shop.contracts", contracts)


def executed(text: str, words: dict[str, str], names: dict[str, Any]) -> dict[str, Any]:
    """Run a block with other ``words``, after the ``names`` that earlier blocks define. Return all names."""
    exec(compile(with_words(text, words), "docs/spark.md", "exec"), names)
    return names


def test_dialogs_are_read(spark: SparkSession, kafka: Kafka, capsys: pytest.CaptureFixture[str]) -> None:
    queues, talk = Queues(kafka), Talk()
    for number in (0, 2):
        queues.say(talk.ask(number, b'{"name": "Ada", "amount": 4711}'))
    names = executed(block("docs/spark.md 1"), {'"localhost:9092"': "KAFKA"}, {"KAFKA": kafka})
    shown = capsys.readouterr().out
    assert shown.count("4711") == 2
    assert "[{1, 1}]" in shown, "the dialog with a gap"
    assert names["spark"] is spark


def test_dialogs_of_the_demo_are_read(kafka: Kafka, capsys: pytest.CaptureFixture[str]) -> None:
    apply(kafka, [aircraft_log.declaration()], 1, 1)
    executed(block("docs/spark.md 2"), {'"127.0.0.1:PORT"': "KAFKA"}, {"KAFKA": kafka})
    assert "|type|count|" in capsys.readouterr().out


def test_an_archive_is_read(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    Queues(kafka).say(Talk().ask(0))
    directory = str(tmp_path / "dialogs")
    assert archive([directory, "--bootstrap", kafka.bootstrap, "--namespace", kafka.namespace]) == 0
    names = executed(
        block("docs/spark.md 4"),
        {"/data/dialogs": directory, "read_archive(spark": "ROWS = read_archive(spark"},
        {"spark": spark, "LOANS": LOANS},
    )
    (row,) = names["ROWS"].collect()
    assert row.body.Ask.name == "0"


def test_rows_are_spoken(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    Queues(kafka)
    (tmp_path / "asks").mkdir()
    (tmp_path / "asks" / "one.json").write_text(block("docs/spark.md 7"))
    schema = "dialog string, number long, type string, body struct<name: string, amount: long>"
    rows = spark.readStream.schema(schema).json(str(tmp_path / "asks")).withColumn("body", to_json("body"))
    names = executed(
        block("docs/spark.md 6"),
        {
            '"localhost:9092"': "KAFKA", "/jobs/nightly": str(tmp_path / "jobs"), ".start()": ".trigger(availableNow=True).start()",
            "timed.writeStream": "QUERY = timed.writeStream",
        },
        {"KAFKA": kafka, "LOANS": LOANS, "rows": rows},
    )  # fmt: skip
    assert names["QUERY"].awaitTermination(120)
    sent = [send for command in commands(kafka, "web") for send in command.operations if isinstance(send, Send)]
    assert [json.loads(it.body) for it in sent] == [json.loads(block("docs/spark.md 7"))["body"]]


def commands(kafka: Kafka, service: str) -> list[Command]:
    """Return the commands for a service."""
    with Follower(kafka, [service_topic(kafka.namespace, service, COMMANDS)]) as follower:
        return [decode_command(record.value() or b"") for record in follower.to_the_end(30)]
