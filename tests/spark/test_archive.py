"""The archive on a real Kafka: every message once, whatever is on the wire, run twice, or killed."""

import json
import random
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession

from conversations.config import Kafka
from conversations.errors import DeclarationError
from spark_jobs.archive import Archive, main
from spark_jobs.errors import CheckpointError, SourceError
from spark_jobs.reading.archived import (
    newest_commit,
    read_archive,
    read_archived_dialog,
    read_archived_set_aside,
)
from spark_jobs.reading.wire import Wire
from spark_jobs.running.storage import Directory
from tests.spark.support.expected_messages import Message, messages_of
from tests.spark.support.killing import run_until_done
from tests.spark.support.queues import LOANS, PARTITIONS, Queues, Talk
from tests.spark.support.unreliable_wire import Unreliable

pytestmark = pytest.mark.kafka


def archive_at(spark: SparkSession, kafka: Kafka, path: Path, service: str = "") -> Archive:
    return Archive(spark, Wire(kafka, {}), Directory(spark, str(path)), service)


def archived(rows: DataFrame) -> list[Message]:
    columns = rows.selectExpr("conversation_id", "to_target", "coalesce(sequence, -1)", "kind", "content")
    return sorted(Message(row[0], row[1], row[2], row[3], bytes(row[4])) for row in columns.collect())


def test_everything_is_archived_once_in_order_and_stays_so(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    queues, path = Queues(kafka), str(tmp_path)
    wire, archive = Unreliable(queues, random.Random(7)), archive_at(spark, kafka, tmp_path)
    wire.speak(dialogs=20, messages=6)
    first = list(archive.catch_up(most=150))
    assert len(first) > 1
    assert first[-1].left == 0
    assert list(archive.catch_up()) == []
    wire.speak(dialogs=5, messages=6)
    wire.repeat_old(30)
    list(archive.catch_up())
    said = sorted(messages_of(kafka, ["loans", "web"], PARTITIONS))
    assert len(said) > 100
    assert archived(read_archive(spark, path)) == said
    assert read_archived_set_aside(spark, path).count() == wire.nonsense
    before = newest_commit(Directory(spark, path))
    assert before is not None
    replaced = archive.compact()
    after = newest_commit(Directory(spark, path))
    assert after is not None
    assert (after.number, replaced > 2, len(after.parts)) == (
        before.number + 1,
        True,
        len({part.place for part in before.parts}),
    )
    assert archived(read_archive(spark, path)) == said
    archive.clean()
    assert archived(read_archive(spark, path)) == said
    assert {part.batch for part in after.parts} == {
        name.rpartition("=")[2] for name in Directory(spark, path).matching("data/*/*/*/*")
    }
    _check_one_dialog(spark, path, said)
    _check_sorted(path)


def _check_one_dialog(spark: SparkSession, path: str, said: list[Message]) -> None:
    one = said[0].conversation
    rows = read_archived_dialog(spark, path, one.upper(), LOANS).collect()
    there = [(row.to_target, row.sequence) for row in rows if row.sequence is not None]
    assert there == sorted(there, key=lambda it: (not it[0], it[1]))
    assert len(rows) == len([it for it in said if it.conversation == one])
    assert rows[0].body.Ask.name == "0"


def _check_sorted(path: str) -> None:
    files = list(Path(path).glob("data/set_aside=false/**/*.parquet"))
    assert files
    for file in files:
        rows = parquet.ParquetFile(file).read(["conversation_id", "to_target", "sequence"]).to_pylist()
        keys = [
            (row["conversation_id"], row["to_target"], -1 if row["sequence"] is None else row["sequence"])
            for row in rows
        ]
        assert keys == sorted(keys)


def test_an_archive_of_one_service_has_its_dialogs_and_takes_no_others(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    queues, talk = Queues(kafka), Talk()
    queues.say_all([talk.ask(0), talk.answer(0)])
    list(archive_at(spark, kafka, tmp_path, "web").catch_up())
    assert [it.number for it in archived(read_archive(spark, str(tmp_path), service="loans"))] == [0, 0]
    with pytest.raises(CheckpointError, match=r"of service 'web' in namespace .* choose another directory"):
        list(archive_at(spark, kafka, tmp_path).catch_up())
    with pytest.raises(SourceError, match="is no archive"):
        read_archive(spark, str(tmp_path / "elsewhere"))


def test_of_two_runs_at_once_one_counts(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    queues, talk = Queues(kafka), Talk()
    queues.say(talk.ask(0))
    list(archive_at(spark, kafka, tmp_path).catch_up())
    queues.say(talk.ask(1))
    slow = archive_at(spark, kafka, tmp_path)
    behind = slow.newest()
    assert behind is not None
    list(archive_at(spark, kafka, tmp_path).catch_up())
    with pytest.raises(CheckpointError, match="another run wrote to this archive"):
        slow._commit(replace(behind, number=behind.number + 1))
    assert len(archived(read_archive(spark, str(tmp_path)))) == 2


def test_records_that_kafka_dropped_stop_it_until_a_person_accepts_the_hole(
    spark: SparkSession, kafka: Kafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    queues, talk = Queues(kafka), Talk()
    queues.say(talk.ask(0))
    list(archive_at(spark, kafka, tmp_path).catch_up())
    queues.say_all([talk.ask(1), talk.ask(2)])
    queues.drop_all("loans")
    queues.say(talk.ask(3))
    where = [str(tmp_path), "--bootstrap", kafka.bootstrap, "--namespace", kafka.namespace, "--json"]
    assert main(where) == 2
    assert "offsets 1 to 2" in json.loads(capsys.readouterr().out)["error"]
    assert main([*where, "--accept-holes"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["messages"], len(said["holes"])) == (1, 1)
    assert main([*where, "--dialog", str(talk.id)]) == 0
    assert [it["sequence"] for it in json.loads(capsys.readouterr().out)["messages"]] == [0, 3]


def test_records_dropped_while_it_runs_are_told_and_no_option_hides_them(
    spark: SparkSession, kafka: Kafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    queues, talk = Queues(kafka), Talk()
    queues.say_all([talk.ask(number) for number in range(3)])
    running = archive_at(spark, kafka, tmp_path).catch_up(most=1)
    next(running)
    queues.drop_all("loans")
    with pytest.raises(
        SourceError, match=r"offsets 1 to 2\. To archive what is left, and note the hole: --accept-holes"
    ):
        next(running)
    where = [str(tmp_path), "--bootstrap", kafka.bootstrap, "--namespace", kafka.namespace, "--json"]
    assert main([*where, "--option", "failOnDataLoss=false"]) == 2
    assert "use --accept-holes" in json.loads(capsys.readouterr().out)["error"]


@pytest.mark.slow
def test_a_backfill_knows_a_repetition_of_long_ago_in_its_next_batch(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    queues, old, new = Queues(kafka), Talk(), Talk()
    queues.let_records_say_when("loans")
    long_ago = time.time_ns() // 1_000_000 - 30 * 86_400_000
    queues.say_all([new.ask(0)])
    queues.say_all([old.ask(0), old.ask(1), old.ask(1), old.ask(0), old.ask(2)], at=long_ago)
    batches = list(archive_at(spark, kafka, tmp_path).catch_up(most=2 * 2 * PARTITIONS))
    assert len(batches) > 1
    assert sorted(it.number for it in archived(read_archive(spark, str(tmp_path)))) == [0, 0, 1, 2]


def test_a_name_that_is_none_becomes_no_folder(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    queues, talk = Queues(kafka), Talk()
    forged = talk.answer(0)
    forged.prefix = replace(forged.prefix, from_service="x" * 300)
    queues.say_all([forged, talk.answer(0)])
    list(archive_at(spark, kafka, tmp_path).catch_up())
    assert [it.number for it in archived(read_archive(spark, str(tmp_path)))] == [0]
    (aside,) = read_archived_set_aside(spark, str(tmp_path)).collect()
    assert aside.why == "neither a service nor a contract can have such a name"


def test_a_directory_is_no_pattern(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match=r"the name of a directory cannot have any of \[ \]"):
        Directory(spark, str(tmp_path / "[prod]"))


def test_a_place_that_has_something_else_is_refused_and_left_alone(
    spark: SparkSession, kafka: Kafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Queues(kafka).say(Talk().ask(0))
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    for place in (tmp_path, file):
        where = [str(place), "--bootstrap", kafka.bootstrap, "--namespace", kafka.namespace, "--json"]
        assert main(where) == 2
        said = json.loads(capsys.readouterr().out)
        assert (said["kind"], "is no archive, and there is 'notes.txt'" in said["error"]) == ("CheckpointError", True)
    assert [it.name for it in tmp_path.iterdir()] == ["notes.txt"]


def test_one_dialog_is_shown_without_kafka_and_in_utc(
    spark: SparkSession, kafka: Kafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    queues, talk = Queues(kafka), Talk()
    queues.say(talk.ask(0))
    list(archive_at(spark, kafka, tmp_path).catch_up())
    assert main([str(tmp_path), "--dialog", str(talk.id), "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)["messages"]
    at = datetime.fromisoformat(shown["appended_at"])
    assert shown["appended_at"].endswith("Z")
    assert abs(datetime.now(UTC) - at) < timedelta(minutes=5)
    assert main([str(tmp_path), "--dialog", str(talk.id)]) == 0
    assert '  {"name":' in capsys.readouterr().out, "a body is readable"
    assert main([str(tmp_path), "--dialog", str(Talk().id)]) == 1
    assert "is archived in" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        main([str(tmp_path), "--dialog", "blah"])
    assert "'blah' is no conversation id" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_an_archive_whose_driver_is_killed_has_everything_once(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    queues, chance = Queues(kafka), random.Random(3)
    wire = Unreliable(queues, chance)
    command = [
        "-m",
        "spark_jobs.archive",
        str(tmp_path),
        "--bootstrap",
        kafka.bootstrap,
        "--namespace",
        kafka.namespace,
    ]

    def more() -> None:
        wire.speak(dialogs=20, messages=20)
        wire.repeat_old(20)

    killed = run_until_done([*command, "--most", "600", "--compact"], kills=3, chance=chance, before_each=more)
    assert killed == 3
    assert archived(read_archive(spark, str(tmp_path))) == sorted(messages_of(kafka, ["loans", "web"], PARTITIONS))


def test_what_claims_to_be_of_a_service_that_is_none_has_no_folder_of_its_own(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    queues = Queues(kafka)
    talks = [Talk() for _ in range(5)]
    for number, talk in enumerate(talks):
        answer = talk.answer(0)
        prefix = replace(answer.prefix, from_service=f"invented-{number}")
        queues.say(talk.ask(0))
        queues.say_all([replace(answer, prefix=prefix)])
    list(archive_at(spark, kafka, tmp_path).catch_up())
    assert Directory(spark, str(tmp_path)).names("data/set_aside=false") == ["of=loans", "of=web"]
    assert len(archived(read_archive(spark, str(tmp_path)))) == 10


@pytest.mark.slow
def test_an_archive_of_many_parts_puts_them_together_before_it_takes_more(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    queues, talk = Queues(kafka), Talk()
    archive = replace(archive_at(spark, kafka, tmp_path), most_parts=2)
    for number in range(4):
        queues.say(talk.ask(number))
        list(archive.catch_up())
    commit = archive.newest()
    assert commit is not None
    assert len(commit.parts) <= 2
    assert [it.number for it in archived(read_archive(spark, str(tmp_path)))] == [0, 1, 2, 3]
