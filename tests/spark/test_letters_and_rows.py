"""Letters and rows as Spark reads them say what the operators' commands say of the same topics."""

from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from conversations_ops.operate.open_letters import open_letters
from conversations_ops.operate.parked import parked_messages
from conversations_ops.operate.queues import queues
from spark_jobs.reading import letters
from spark_jobs.reading.parked import parked
from spark_jobs.reading.rows import newest, read_history, read_rows, services_of
from spark_jobs.reading.wire import Wire
from spark_jobs.stuck_dialogs import queues_off
from tests.spark.support.troubled_services import Troubles

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def wire(troubles: Troubles) -> Wire:
    return Wire(troubles.kafka, {})


def test_open_letters_are_those_that_operators_see(spark: SparkSession, troubles: Troubles, wire: Wire) -> None:
    services = services_of(wire, None)
    listed = letters.open_letters(read_rows(spark, wire, services, "L")).withColumn("listed", F.lit(True))
    read = letters.newest(letters.read_letters(spark, wire, services))
    rows = read.join(listed, "letter", "left").withColumn("micros", F.unix_micros("failed_at")).collect()
    found = {row.letter: row for row in rows if row.listed or row.reason == "foreign"}
    expected = {it.letter: it for it in open_letters(troubles.kafka)}
    assert found.keys() == expected.keys()
    for letter, it in expected.items():
        row: Any = found[letter]
        said = (
            row.service, row.partition, row.reason, row.exception or "", row.exception_message or "", row.conversation_id or "",
            bool(row.from_initiator), -1 if row.sequence is None else row.sequence, row.type or "", bytes(row.key), bytes(row.value),
        )  # fmt: skip
        assert said == (
            it.service, it.partition, it.reason, it.exception, it.message, it.conversation, it.from_initiator, it.number,
            it.what, it.key, it.value,
        )  # fmt: skip
        if not it.foreign:
            assert row.micros == it.at
        envelope = it.envelope()
        assert (row.contract, row.peer) == (("Tasks", "clerk") if envelope else (None, None))
    reasons = sorted((row.reason, row.held) for row in rows)
    assert reasons == [
        ("foreign", False), ("handler-failed", False), ("handler-failed", False), ("handler-failed", True), ("set-aside", False),
    ]  # fmt: skip


def test_of_the_letters_of_one_source_the_last_counts_and_parts_stay_parts(spark: SparkSession) -> None:
    said = [
        ("a", None, "handler-failed", 4),
        ("a", None, "skipped", 9),
        ("b", "1/2", "set-aside", 5),
        ("b", "2/2", "set-aside", 6),
    ]
    given = spark.createDataFrame(said, "letter string, part string, reason string, offset bigint")
    found = sorted(tuple(row) for row in letters.newest(given).select("letter", "offset", "reason").collect())
    assert found == [("a", 9, "skipped"), ("b", 5, "set-aside"), ("b", 6, "set-aside")]


def test_what_waits_is_what_operators_see(spark: SparkSession, troubles: Troubles, wire: Wire) -> None:
    rows = read_rows(spark, wire, services_of(wire, None)).localCheckpoint()
    micros = (F.unix_micros(name).alias(f"{name}_micros") for name in ("since", "due"))
    found = {row.letter: row for row in parked(rows).select("*", *micros).collect()}
    expected = {it.letter: it for it in parked_messages(troubles.kafka)}
    assert found.keys() == expected.keys()
    for letter, it in expected.items():
        row: Any = found[letter]
        said = (
            row.service, row.conversation_id, row.initiator, row.key, row.contract, row.peer, row.handler,
            -1 if row.number is None else row.number, row.what, row.attempts, row.since_micros, row.due_micros, row.behind,
            row.size, row.failure, row.queue_off, row.held, row.returns,
        )  # fmt: skip
        assert said == (
            it.service, it.conversation, it.initiator, it.key, it.contract, it.peer, it.handler.value, it.number, it.what,
            it.attempts, it.since, it.due, it.behind, it.size, it.failure, it.queue_off, it.held, it.returns,
        )  # fmt: skip
    off = {(row.service, row.partition): row for row in queues_off(rows).collect()}
    assert {(it.service, it.partition) for it in queues(troubles.kafka) if it.off} == off.keys() == {("till", 0)}
    assert off["till", 0].reason == "RuntimeError: cannot off"


def test_rows_are_the_newest_of_their_keys(spark: SparkSession, wire: Wire) -> None:
    history = read_history(spark, wire, ["desk"]).localCheckpoint()
    last: dict[tuple[int, bytes], Any] = {}
    for row in history.orderBy("partition", "offset").collect():
        last[row.partition, bytes(row.key)] = row
    expected = sorted(tuple(row) for row in last.values() if row.value is not None)
    assert sorted(tuple(row) for row in newest(history).collect()) == expected
    assert history.count() > len(expected), "rows were written more than once"
