"""What Spark has a service say: each row once, in order, whatever is done twice; and what cannot be said is named."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from uuid import uuid5

import pytest
from pydantic import BaseModel
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import current_timestamp, lit

from conversations import Contract, MessageType
from conversations.config import Kafka
from conversations.errors import DeclarationError, KafkaUnreachable, LogError
from conversations.kafka.admin import apply
from conversations.kafka.append_in_order import append_in_order
from conversations.kafka.follow import Follower
from conversations.protocol.command import Begin, Command, End, Send, decode_command
from conversations.protocol.topics import COMMANDS, partition_of, service_topic
from spark_jobs.errors import CheckpointError, SourceError
from spark_jobs.running.checkpoints import claim
from spark_jobs.running.contracts import find_contract
from spark_jobs.speak import SpeakError, base_of, main, raised_by_worker, speak, speaking, transform
from spark_jobs.speech_rows import Speech
from tests.spark.chaos_speak import Options, run
from tests.spark.support.listening_services import (
    LISTENER,
    READER,
    SPEECH,
    Story,
    commands,
    heard,
    listener,
    reader,
    refusals,
    wait_for,
    working,
)
from tests.support.waiting import until

PARTITIONS = 3
NOW = 1_800_000_000_000_000
BASE = base_of("conv", "web", "job", "loans", "Everything")
PLACE = {"type": "record", "name": "Place", "fields": [{"name": "city", "type": "string"}]}


class Ask(BaseModel):
    name: str
    amount: int = 0


class Answer(BaseModel):
    text: str


EVERYTHING = Contract(
    "Everything",
    sent_by_initiator=[Ask, MessageType("Raw", "bytes"), MessageType("Nod", None), MessageType("Place", PLACE)],
    sent_by_target=[Answer],
)
SCHEMA = "dialog string, number long, type string, body string, end boolean"
Said = tuple[str | None, int | None, str | None, str | None, bool | None]


def made(rows: DataFrame, now: int = NOW) -> list[Any]:
    speech = Speech(EVERYTHING, "loans", "job", 60_000_000, PARTITIONS, NOW - 1_000, NOW + 1_000)
    return transform(rows, BASE, speech, now).collect()


def frame(spark: SparkSession, *rows: Said) -> DataFrame:
    return spark.createDataFrame(list(rows), SCHEMA)


def line(dialog: str, number: int, *, end: bool = False) -> Said:
    return dialog, number, "Line", json.dumps({"dialog": dialog, "number": number}), end


# -- without Kafka -------------------------------------------------------------------------------------------------------


def test_a_row_is_the_same_command_whatever_batch_it_comes_in(spark: SparkSession) -> None:
    rows: list[Said] = [
        ("b", 1, "Raw", "bytes", None), ("a", 0, "Ask", '{"name": "x", "amount": 7}', False),
        ("b", 0, "Place", '{"city": "NY"}', None), ("b", 2, "Nod", None, True), ("a", 1, None, None, True),
        ("a", 1, None, None, True),
    ]  # fmt: skip
    found = made(frame(spark, *rows))
    assert [row.problem for row in found] == [None] * 5, "what is there twice is once"
    decoded: dict[tuple[str, int], Command] = {
        (row.dialog, row.number): decode_command(bytes(row.value)) for row in found
    }
    one, other = uuid5(BASE, "a"), uuid5(BASE, "b")
    assert {it.conversation_id for it in decoded.values()} == {one.bytes, other.bytes}
    assert decoded["a", 0].operations == (
        Begin("loans", "Everything", 60_000_000),
        Send("Ask", "application/json", b'{"name": "x", "amount": 7}'),
    )
    assert decoded["b", 0].operations[1] == Send("Place", "avro/binary", b"\x04NY")
    assert decoded["b", 1].operations == (Send("Raw", "application/octet-stream", b"bytes"),)
    assert decoded["b", 2].operations == (Send("Nod", "", b""), End())
    assert decoded["a", 1].operations == (End(),)
    keys = {name: (it.key, it.idempotency_key, it.issued_by, it.issued_at) for name, it in decoded.items()}
    assert keys["b", 2] == (str(other), "job/2", "job", NOW)
    assert keys["a", 0] == (str(one), "", "job", NOW)
    for row in found:
        assert row.place == partition_of(bytes(row.key), PARTITIONS)
    order = [(row.dialog, row.number) for row in found]
    assert [number for name, number in order if name == "b"] == [0, 1, 2]

    apart = [*made(frame(spark, *rows[:3])), *made(frame(spark, *rows[3:5]))]
    assert sorted(bytes(row.value) for row in apart) == sorted(bytes(row.value) for row in found)
    assert len({it.command_id for it in decoded.values()}) == 5


def test_bodies_may_be_structs_or_ready_bytes(spark: SparkSession) -> None:
    structs = spark.createDataFrame(
        [("a", 0, "Ask", ("x", None))], "dialog string, number int, type string, body struct<name string, amount long>"
    )
    ready = spark.createDataFrame(
        [("a", 0, "Place", bytearray(b"\x04NY")), ("a", 1, "Place", bytearray(b"\x04"))],
        "dialog string, number int, type string, body binary",
    )
    assert decode_command(bytes(made(structs)[0].value)).operations[1] == Send(
        "Ask", "application/json", b'{"name":"x"}'
    )
    whole, broken = made(ready)
    assert decode_command(bytes(whole.value)).operations[1] == Send("Place", "avro/binary", b"\x04NY")
    assert broken.value is None
    assert broken.problem.startswith("Place: ")


def test_what_cannot_be_said_is_named(spark: SparkSession) -> None:
    ask = '{"name": "x"}'
    rows = frame(
        spark,
        ("wrong", 0, "Ask", '{"amount": 1}', None), ("other", 0, "Answer", "{}", None), ("none", 0, "What", "{}", None),
        ("empty", 0, None, None, None), ("bodiless", 0, "Ask", None, None), (None, 0, "Ask", ask, None),
        ("unnumbered", None, "Ask", ask, None), ("before", -1, "Ask", ask, None), ("hole", 0, "Ask", ask, None),
        ("hole", 2, "Ask", ask, None), ("twice", 4, "Ask", ask, None), ("twice", 4, "Nod", None, None),
        ("over", 0, "Nod", None, True), ("over", 1, "Nod", None, None), ("large", 0, "Raw", "x" * 900_001, None),
        ("typeless", 0, None, ask, True),
    )  # fmt: skip
    problems = {(row.dialog, row.number): row.problem for row in made(rows) if row.problem}
    parts = {
        ("wrong", 0): "Ask: name: Field required", ("other", 0): "SENT BY TARGET", ("none", 0): "no message type 'What'",
        ("empty", 0): "the row has no type, and does not end its dialog", ("bodiless", 0): "Ask: the body is missing", ("", 0): "no dialog",
        ("unnumbered", -1): "missing or negative", ("before", -1): "missing or negative", ("hole", 2): "number 1 is missing",
        ("twice", 4): "two rows have this number", ("over", 1): "after the end", ("large", 0): "900001 bytes",
        ("typeless", 0): "a body and no type",
    }  # fmt: skip
    assert problems.keys() == parts.keys()
    assert [name for name, part in parts.items() if part not in problems[name]] == []

    nod = frame(spark, ("a", 0, "Nod", None, None))
    late, early = made(nod, now=NOW - 1_001), made(nod, now=NOW + 1_001)
    assert "it is not known any more whether it was sent" in late[0].problem
    assert "in the future: is the time local time" in early[0].problem
    assert made(nod.withColumn("at", lit(None).cast("timestamp")))[0].problem == "the row has no time 'at'"


def test_one_name_means_another_dialog_to_another_service_or_under_another_contract() -> None:
    others = [
        base_of("other", "web", "job", "loans", "Everything"), base_of("conv", "shop", "job", "loans", "Everything"),
        base_of("conv", "web", "task", "loans", "Everything"), base_of("conv", "web", "job", "bank", "Everything"),
        base_of("conv", "web", "job", "loans", "Something"),
    ]  # fmt: skip
    assert len({BASE, *others}) == 6


def test_times_in_bodies_keep_their_microseconds(spark: SparkSession) -> None:
    said = "select 'a' dialog, 0 number, 'Ask' type, struct('x' name, timestamp'2026-01-02 03:04:05.678901Z' at) body"
    operation = decode_command(bytes(made(spark.sql(said))[0].value)).operations[1]
    assert isinstance(operation, Send)
    assert json.loads(operation.body) == {"name": "x", "at": "2026-01-02T03:04:05.678901Z"}


def test_columns_that_do_not_fit_are_named(spark: SparkSession) -> None:
    with pytest.raises(SpeakError, match="no column body, type; they need dialog, number, type and body"):
        made(spark.createDataFrame([("a", 0)], "dialog string, number int"))
    with pytest.raises(SpeakError, match="column number is double, not integral: cast it"):
        made(spark.createDataFrame([("a", 0.5, "Nod", "")], "dialog string, number double, type string, body string"))
    with pytest.raises(SpeakError, match="column body is bigint"):
        made(spark.createDataFrame([("a", 0, "Nod", 1)], "dialog string, number int, type string, body long"))


def test_contracts_are_found_by_name() -> None:
    assert find_contract("tests.spark.support.listening_services:SPEECH") is SPEECH
    with pytest.raises(DeclarationError, match="no contract 'NOTHING'; it has: SPEECH"):
        find_contract("tests.spark.support.listening_services:NOTHING")
    with pytest.raises(DeclarationError, match=r"no module 'tests\.spark\.nothing'"):
        find_contract("tests.spark.nothing:SPEECH")
    with pytest.raises(DeclarationError, match="write it as module:NAME"):
        find_contract("SPEECH")


@pytest.mark.parametrize(
    ("last", "known"),
    [
        (
            "conversations.errors.LogError: another process uses the transactional id x.0 now",
            LogError("another process uses the transactional id x.0 now"),
        ),
        ("conversations.errors.KafkaUnreachable: no answer", KafkaUnreachable("k:1", "no answer")),
        ("ValueError: something else", None),
    ],
)
def test_what_a_worker_met_is_told(last: str, known: LogError | None) -> None:
    text = f"An exception was thrown from the Python worker.\nTraceback (most recent call last):\n  File x\n{last}\n\tat a.b"
    found = raised_by_worker(PySparkException(text), "k:1")
    assert (type(found), str(found)) == (type(known), str(known))


def test_a_checkpoint_belongs_to_one_job(spark: SparkSession, tmp_path: Path) -> None:
    mine = {"job": "speak a", "files": "in"}
    claim(spark, str(tmp_path / "new"), mine)
    claim(spark, str(tmp_path / "new"), mine)
    with pytest.raises(CheckpointError, match="job 'speak a', not 'speak b'"):
        claim(spark, str(tmp_path / "new"), {**mine, "job": "speak b"})
    (tmp_path / "old" / "offsets").mkdir(parents=True)
    with pytest.raises(CheckpointError, match="checkpoint of something else"):
        claim(spark, str(tmp_path / "old"), mine)


# -- on a real Kafka -----------------------------------------------------------------------------------------------------


@pytest.mark.kafka
def test_each_row_is_heard_once_and_in_order_whatever_is_done_twice(spark: SparkSession, kafka: Kafka) -> None:
    whole: list[Said] = [line(f"d{n}", number, end=number == 9) for n in range(30) for number in range(10)]
    expected = sorted(Story(f"d{n}", tuple(range(10)), True) for n in range(30))

    def say(rows: list[Said]) -> int:
        options = {"service": READER, "contract": SPEECH, "to_service": LISTENER, "job": "twice"}
        return speak(frame(spark, *rows), bootstrap=kafka, **options).commands  # type: ignore[arg-type]  # a test's shorthand

    with working(kafka, PARTITIONS):
        first = [row for row in whole if (row[1] or 0) < 4]
        assert say(first) == len(first)
        assert say(first) == len(first), "a batch that is carried out again"
        assert say(whole) == len(whole), "the same rows in another batch"
        wrong: list[Said] = [*whole, ("d30", 0, "Line", '{"dialog": 7}', None), ("d31", 0, "Line", "no", None)]
        with pytest.raises(SpeakError, match="nothing of this batch was written") as failure:
            say(wrong)
        assert "dialog 'd30', number 0: Line: " in str(failure.value)
        assert wait_for(kafka, 300, 30) == expected
        changed: list[Said] = [("d1", 3, "Line", '{"dialog": "d1", "number": 33}', None), line("nobody", 5)]
        assert say(changed) == 2
        wait_for_refusals(kafka, 2)
        assert heard(kafka) == expected, "what took effect stays"
    assert len(commands(kafka)) == 2 * len(first) + len(whole) + 2
    assert refusals(kafka) == {f"{READER}: command-refused": 2}


def wait_for_refusals(kafka: Kafka, count: int) -> None:
    until(lambda: refusals(kafka).total() >= count, "refusals", 30, pause=0.1)


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_stream_that_is_killed_again_and_again_says_each_row_once(kafka: Kafka, tmp_path: Path) -> None:
    verdict = run(kafka, tmp_path, Options(rows=2_400, files=12, kills=3, partitions=2, pause=2.0, seed=20_26))
    assert verdict.wrong == []
    assert verdict.kills == 3
    assert verdict.injected > 0


@pytest.mark.kafka
def test_the_command_line_says_files_and_goes_on_where_it_was(
    spark: SparkSession, kafka: Kafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, checkpoint = tmp_path / "rows", tmp_path / "checkpoint"
    rows.mkdir()

    def write(name: str, *lines: dict[str, Any]) -> None:
        (rows / name).write_text("".join(json.dumps(it) + "\n" for it in lines))

    def run_main(*more: str) -> tuple[int, dict[str, Any]]:
        where = ["--bootstrap", kafka.bootstrap, "--namespace", kafka.namespace, "--json", "--job", "files"]
        what = ["--service", READER, "--to", LISTENER, "--contract", "tests.spark.support.listening_services:SPEECH"]
        code = main([*where, *what, "--from-json", str(rows), *more])
        return code, json.loads(capsys.readouterr().out)

    remembering = ("--checkpoint", str(checkpoint))
    apply(kafka, [reader().declaration(), listener().declaration()], PARTITIONS, 1)
    write(
        "1.json", *({"dialog": "a", "number": n, "type": "Line", "body": {"dialog": "a", "number": n}} for n in (0, 1))
    )
    assert run_main(*remembering) == (
        0, {"job": "files", "service": READER, "to": LISTENER, "commands": 2},
    )  # fmt: skip
    assert run_main(*remembering)[1]["commands"] == 0
    write("2.json", {"dialog": "a", "number": 2, "type": "Line", "body": '{"dialog": "a"}'})
    code, answer = run_main(*remembering)
    assert (code, answer["kind"]) == (2, "SpeakError")
    assert "dialog 'a', number 2: Line: number: Field required" in answer["error"]
    write("2.json", {"dialog": "a", "number": 2, "type": "Line", "body": '{"dialog": "a", "number": 2}', "end": True})
    assert run_main(*remembering)[1]["commands"] == 1, "mended, it goes on"
    assert run_main("--checkpoint", str(checkpoint), "--to", READER)[1]["kind"] == "CheckpointError"
    write("0.json", {"dialog": "a", "number": 3, "type": "Line", "body": '{"dialog": "a", "number": 3}', "end": "no"})
    os.utime(rows / "0.json", (1_700_000_000, 1_700_000_000))
    code, answer = run_main(*remembering)
    assert (code, "end (true or false)" in answer["error"]) == (2, True), "a file that is years older is read too"
    (rows / "0.json").unlink()
    assert run_main()[1]["commands"] == 3, "without a checkpoint all of it is said again, and known"
    assert [number for name, number in written(kafka) if name == "files"] == [0, 1, 2, 0, 1, 2]
    old = {
        "dialog": "b",
        "number": 0,
        "type": "Line",
        "body": '{"dialog": "b", "number": 0}',
        "at": "2026-01-01T00:00:00Z",
    }
    write("1.json", old)
    assert "at 2026-01-01T00:00:00+00:00, about a day ago" in run_main()[1]["error"]


def written(kafka: Kafka) -> list[tuple[str, int]]:
    """Job and number of each command, in the order they were written."""
    found = []
    for command, _ in commands(kafka):
        said = next(it for it in command.operations if isinstance(it, Send))
        found.append((command.issued_by, json.loads(said.body)["number"]))
    return found


@pytest.mark.kafka
def test_a_batch_that_is_carried_out_again_is_the_same_commands(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    apply(kafka, [reader().declaration(), listener().declaration()], PARTITIONS, 1)
    (tmp_path / "rows").mkdir()
    rows = [{"dialog": "a", "number": n, "type": "Line", "body": {"dialog": "a", "number": n}} for n in range(3)]
    (tmp_path / "rows" / "1.json").write_text("".join(json.dumps(it) + "\n" for it in rows))
    say = speaking(bootstrap=kafka, service=READER, contract=SPEECH, to_service=LISTENER, job="again")
    fails = iter([True])

    def spoken(batch: DataFrame, number: int) -> None:
        say(batch, number)
        if next(fails, False):
            raise RuntimeError("the batch is written, and not noted")

    def run_stream() -> None:
        stream = spark.readStream.schema(SCHEMA).json(str(tmp_path / "rows")).withColumn("at", current_timestamp())
        writer = stream.writeStream.foreachBatch(spoken).option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(StreamingQueryException, match="the batch is written, and not noted"):
        run_stream()
    run_stream()
    found = [command for command, _ in commands(kafka)]
    assert len(found) == 6
    assert found[:3] == found[3:], "even the time it was issued at"


@pytest.mark.kafka
def test_what_is_not_there_is_named(spark: SparkSession, kafka: Kafka) -> None:
    rows = frame(spark, line("a", 0))
    apply(kafka, [reader().declaration(), listener().declaration()], PARTITIONS, 1)

    def say(service: str = READER, to: str = LISTENER, contract: Contract = SPEECH) -> None:
        speak(rows, bootstrap=kafka, service=service, contract=contract, to_service=to, job="names")

    with pytest.raises(SourceError, match="no service 'nobody'"):
        say(to="nobody")
    with pytest.raises(
        SpeakError, match="'listener' initiates no contract 'Speech'; contracts that it initiates: none"
    ):
        say(service=LISTENER)
    with pytest.raises(SpeakError, match="'reader' accepts no contract 'Speech'"):
        say(to=READER)
    with pytest.raises(SpeakError, match="need a column 'at'"):
        speaking(bootstrap=kafka, service=READER, contract=SPEECH, to_service=LISTENER, job="names")(rows, 0)


@pytest.mark.kafka
def test_a_writer_that_was_replaced_writes_nothing_more(kafka: Kafka) -> None:
    apply(kafka, [reader().declaration()], 1, 1)
    topic = service_topic(kafka.namespace, READER, COMMANDS)
    later = iter([0])

    def records() -> Any:
        """A thousand fill the first part; before the next another writer comes."""
        for number in range(1_500):
            if number == 1_200 and next(later, None) is not None:
                assert append_in_order(kafka, "same", topic, [(0, b"k", b"other")]) == 1
            yield 0, b"k", str(number).encode()

    with pytest.raises(LogError, match="another process uses the transactional id same now"):
        append_in_order(kafka, "same", topic, records())
    with Follower(kafka, [topic]) as follower:
        values = [record.value() for record in follower.to_the_end(30)]
    assert values == [*(str(number).encode() for number in range(1_000)), b"other"]
