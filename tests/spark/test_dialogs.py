"""Messages of dialogs as Spark reads them from a real Kafka: each once, in order, and what is none beside them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from conversations import Contract, MessageType
from conversations.config import Kafka
from conversations.protocol.envelope import Extras, FenceOutcome, Kind, Origin, encode
from conversations.protocol.rules import Rule
from spark_jobs.errors import SourceError, explained
from spark_jobs.reading.bodies import body_of
from spark_jobs.reading.dialogs import in_order, read_dialogs, read_set_aside, stream_dialogs, stream_set_aside
from tests.spark.support.queues import LOANS, Queues, Talk

pytestmark = pytest.mark.kafka
Said = tuple[str, bool, int | None, str]
"""Dialog, whether to its target, number, and kind of a message."""


@pytest.fixture
def queues(kafka: Kafka) -> Queues:
    return Queues(kafka)


def numbers(messages: DataFrame) -> list[Said]:
    rows: list[Said] = [
        tuple(row) for row in messages.select("conversation_id", "to_target", "sequence", "kind").collect()
    ]
    return sorted(rows, key=str)


def drained(stream: DataFrame, directory: Path) -> DataFrame:
    """Run a stream over all there is, into files."""
    query = (
        stream.writeStream.format("parquet").option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True).start(str(directory / "rows"))
    )  # fmt: skip
    assert query.awaitTermination(60)
    return stream.sparkSession.read.parquet(str(directory / "rows"))


def unreliable(queues: Queues) -> list[Said]:
    """Put two dialogs on the wire with repetitions, out of order and beside nonsense; return what was really said."""
    one, other = Talk(), Talk()
    for number in (2, 0, 1, 1, 300, 0):
        queues.say(one.ask(number))
    queues.say(one.ask(1, b'{"name": "somebody else"}'))  # the number is taken
    for _ in range(2):
        queues.say(one.end(301))
        queues.say(other.ask(0))
        queues.say(other.answer(0))
        queues.say(other.acknowledgement(0))
        queues.say(other.error(-1, -8462))
    queues.say(other.ask(1), astray=1)
    queues.say(other.ask(-5))
    queues.say(other.ask(1), service="web")
    said: list[Said] = [(str(one.id), True, number, "MESSAGE") for number in (0, 1, 2, 300)]
    said.append((str(one.id), True, 301, "END"))
    said += [(str(other.id), True, 0, "MESSAGE"), (str(other.id), False, 0, "MESSAGE")]
    said += [(str(other.id), False, None, "ERROR")]
    return sorted(said, key=str)


def test_each_message_is_read_once_whatever_is_on_the_wire(
    spark: SparkSession, kafka: Kafka, queues: Queues, tmp_path: Path
) -> None:
    said = unreliable(queues)
    batch = read_dialogs(spark, bootstrap=kafka, service="loans", contract=LOANS)
    assert numbers(batch) == said
    assert {row.body.Ask.name for row in batch.where("kind = 'MESSAGE' and to_target").collect()} == {
        "0",
        "1",
        "2",
        "300",
    }
    stream = stream_dialogs(spark, bootstrap=kafka, service="loans", contract=LOANS, remember=timedelta(hours=1))
    assert numbers(drained(stream, tmp_path)) == said


def test_dialogs_are_put_together_with_their_gaps_and_ends(spark: SparkSession, kafka: Kafka, queues: Queues) -> None:
    whole, broken = Talk(), Talk()
    for number in (1, 0, 2):
        queues.say(whole.ask(number))
    queues.say(whole.end(3))
    for number in (5, 1, 2):
        queues.say(broken.ask(number))
    queues.say(broken.error(0, 1404))
    found = in_order(read_dialogs(spark, bootstrap=kafka, service="loans", contract=LOANS)).collect()
    rows: dict[Any, Any] = {(row.conversation_id, row.to_target): row for row in found}
    asked, asks, refused = rows[str(whole.id), True], rows[str(broken.id), True], rows[str(broken.id), False]
    assert [it.sequence for it in asked.messages] == [0, 1, 2, 3]
    assert [it.body.Ask.name for it in asked.messages[:3]] == ["0", "1", "2"]
    assert (asked.complete, asked.ended, asked.gaps, asked["count"], asked.service) == (True, "END", [], 4, "loans")
    assert [(gap.first, gap.last) for gap in asks.gaps] == [(0, 0), (3, 4)]
    assert (asks.complete, asks.ended) == (False, None)
    assert (refused.ended, refused.code, refused.description, refused.complete) == ("ERROR", 1404, "no", True)


def test_what_is_no_message_is_kept_beside_with_its_bytes_and_why(
    spark: SparkSession, kafka: Kafka, queues: Queues, tmp_path: Path
) -> None:
    talk = Talk()
    envelope = talk.ask(0)
    value, key = encode(envelope), str(talk.id).encode()
    queues.say(envelope)
    queues.say(talk.ask(-5))
    queues.say(envelope, astray=2)
    queues.say(envelope, service="web")
    queues.put("loans", None, key, None, 0)
    queues.put("loans", b"\0junk", key, None, 0)
    queues.put("loans", value[:40], key, None, 0)
    queues.put("loans", value[:2] + bytes(8) + value[10:], key, None, 0)
    fence = talk.end(-1)
    fence.kind = Kind.FENCE
    queues.say(fence)
    found = read_set_aside(spark, bootstrap=kafka, service="loans").collect()
    reasons = sorted(row.why.partition(":")[0] for row in found)
    assert reasons == sorted([
        Rule.NUMBER, "misrouted", "misrouted", Rule.VALUE, *[Rule.SCHEMA] * 3, Rule.FENCE.partition(":")[0],
    ])  # fmt: skip
    assert bytes(next(row for row in found if row.why.endswith("another partition")).value) == value
    assert drained(stream_set_aside(spark, bootstrap=kafka, service="loans"), tmp_path).count() == 8
    assert read_dialogs(spark, bootstrap=kafka, service="loans").count() == 1


def test_what_belongs_to_a_broken_dialog_is_judged_as_its_owner_does(
    spark: SparkSession, kafka: Kafka, queues: Queues
) -> None:
    """A message that was sent first on another dialog is a message; a FENCE and its answer are not, and are not set aside."""
    talk = Talk()
    first, fence, bare, fenced = talk.ask(0), talk.end(-1), talk.end(-1), talk.acknowledgement(-1)
    first.extras = Extras(origin=Origin(b"\7" * 16, 1, 5))
    fence.kind = bare.kind = Kind.FENCE
    fence.code = -8489
    fenced.kind, fenced.extras = Kind.FENCED, Extras(fence=FenceOutcome(4, -1, "CLOSED", False))
    wrong = [talk.ask(number) for number in (1, 2, 3)]
    wrong[0].extras = Extras(origin=Origin(b"\7" * 16, 4, 9))
    wrong[1].extras = Extras(origin=Origin(b"\7" * 16, 1, 1))
    wrong[2].extras = fenced.extras
    queues.say_all([first, fence, bare, fenced, *wrong])
    found = read_set_aside(spark, bootstrap=kafka).collect()
    assert sorted(row.why for row in found) == sorted([Rule.FENCE, *[Rule.FIELDS] * 3])
    assert [row.sequence for row in read_dialogs(spark, bootstrap=kafka).collect()] == [0]


def test_a_body_that_is_not_what_its_type_says_is_null_and_its_bytes_are_there(
    spark: SparkSession, kafka: Kafka, queues: Queues
) -> None:
    talk = Talk()
    queues.say(talk.ask(0, b"\xff not json"))
    queues.say(talk.ask(1, b'{"name": "a", "amount": 7}'))
    queues.say(talk.ask(2, b'{"name": null}'))
    rows = read_dialogs(spark, bootstrap=kafka, contract=LOANS).orderBy("sequence").collect()
    assert [row.body.Ask and (row.body.Ask.name, row.body.Ask.amount) for row in rows] == [None, ("a", 7), (None, None)]
    assert bytes(rows[0].content) == b"\xff not json"
    assert [row.body.Answer for row in rows] == [None] * 3


PLACE = {"type": "record", "name": "Place", "fields": [{"name": "city", "type": "string"}]}


@pytest.mark.parametrize(
    ("declared", "good", "read"),
    [
        (MessageType("Ask", PLACE), b"\x04NY", ("NY",)),
        (MessageType("Ask", "bytes"), b"\0\1", b"\0\1"),
        (MessageType("Ask", None), b"", True),
        (MessageType("Ask", int), b"7", 7),
    ],
)
def test_bodies_of_every_kind_are_read(spark: SparkSession, declared: MessageType, good: bytes, read: object) -> None:
    broken = b"\x7f!"
    contract = Contract("Loans", sent_by_initiator=[declared])
    rows = spark.createDataFrame([("Ask", bytearray(good)), ("Ask", bytearray(broken))], "type string, body binary")
    found = [row.it.Ask for row in rows.select(body_of(contract, col("type"), col("body")).alias("it")).collect()]
    assert found == [read, broken if declared.body == "bytes" else None]


def test_reading_begins_and_ends_when_it_is_told(spark: SparkSession, kafka: Kafka, queues: Queues) -> None:
    queues.say(Talk().ask(0))
    later = datetime.now(UTC) + timedelta(hours=1)
    assert read_dialogs(spark, bootstrap=kafka, since=later).count() == 0
    assert read_dialogs(spark, bootstrap=kafka, since="2020-01-01", until=later).count() == 1


def test_a_stream_stops_when_kafka_dropped_records_it_was_to_read(
    spark: SparkSession, kafka: Kafka, queues: Queues, tmp_path: Path
) -> None:
    talk = Talk()

    def numbers_read(options: dict[str, str] | None = None) -> list[int]:
        stream = stream_dialogs(spark, bootstrap=kafka, service="loans", options=options)
        return sorted(row.sequence for row in drained(stream, tmp_path).collect())

    queues.say(talk.ask(0))
    assert numbers_read() == [0]
    queues.say_all([talk.ask(1), talk.ask(2)])
    queues.drop_all("loans")
    queues.say(talk.ask(3))
    with pytest.raises(StreamingQueryException) as caught:
        numbers_read()
    known = explained(caught.value)
    assert isinstance(known, SourceError)
    assert "failOnDataLoss=false" in str(known)
    assert numbers_read({"failOnDataLoss": "false"}) == [0, 3]


class Renamed(BaseModel):
    """An Ask of a later version: one field is new, one has another type, one is gone."""

    amount: str | None = None
    purpose: str = "none"


def test_a_contract_that_was_changed_reads_what_still_fits_and_keeps_the_bytes(
    spark: SparkSession, kafka: Kafka, queues: Queues
) -> None:
    talk = Talk()
    queues.say(talk.ask(0, b'{"name": "a", "amount": 7}'))
    queues.say(talk.answer(0))
    changed = Contract(
        "Loans", sent_by_initiator=[MessageType("Ask", Renamed)], sent_by_target=[MessageType("Bye", int)]
    )
    asked, answered = read_dialogs(spark, bootstrap=kafka, contract=changed).orderBy("type", ascending=False).collect()
    assert (asked.type, answered.type) == ("Ask", "Answer")
    assert (asked.body.Ask.amount, asked.body.Ask.purpose) == ("7", None)
    assert list(answered.body) == [None, None]
    assert [bytes(row.content) for row in (asked, answered)] == [b'{"name": "a", "amount": 7}', b'{"text":"0"}']


def test_what_is_not_there_is_named(spark: SparkSession, kafka: Kafka) -> None:
    with pytest.raises(SourceError, match="has no catalog: run 'conversations apply'"):
        read_dialogs(spark, bootstrap=kafka)
    Queues(kafka)
    with pytest.raises(SourceError, match="no service 'lones'; it has: loans, web"):
        read_dialogs(spark, bootstrap=kafka, service="lones")
    with pytest.raises(SourceError, match="neither accepts nor initiates contract 'Other'; it has: Loans"):
        read_dialogs(spark, bootstrap=kafka, service="loans", contract=Contract("Other", sent_by_any=[bytes]))
    with pytest.raises(SourceError, match="is no time: write it as 2026-09-01"):
        read_dialogs(spark, bootstrap=kafka, since="yesterday")


@pytest.mark.parametrize("columns", [("*",), ("conversation_id", "type")])
def test_a_read_reads_kafka_once(spark: SparkSession, queues: Queues, kafka: Kafka, columns: tuple[str, ...]) -> None:
    """Both branches of ``whole`` need the same columns, whatever the caller selects. Then Spark has one shuffle for both."""
    queues.say(Talk().ask(0))
    read = read_dialogs(spark, bootstrap=kafka, service="loans", contract=LOANS).select(*columns)
    assert len(read.collect()) == 1
    executed = spark._jvm.PythonSQLUtils.explainString(read._jdf.queryExecution(), "simple")  # type: ignore[union-attr]  # this session has a JVM
    final = executed.partition("== Initial Plan ==")[0]
    assert (final.count("Scan KafkaRelation"), "ReusedExchange" in final) == (1, True), final


def test_a_message_in_fragments_is_read_whole(
    spark: SparkSession, kafka: Kafka, queues: Queues, tmp_path: Path
) -> None:
    talk, broken = Talk(), Talk()
    name = "long" * 100
    body = b'{"name": "%s"}' % name.encode()
    parts = [body[:100], body[100:200], body[200:]]
    queues.say(talk.ask(0))
    for at in (1, 0, 2, 1):
        queues.say(replace(talk.ask(1 + at, parts[at]), fragment=at, fragments=3))
    queues.say(talk.ask(4))
    queues.say(talk.end(5))
    queues.say(replace(broken.ask(0, parts[0]), fragment=0, fragments=2))
    queues.say(replace(broken.ask(1, parts[1]), fragment=2, fragments=2))
    read = read_dialogs(spark, bootstrap=kafka, service="loans", contract=LOANS)
    rows = read.where("kind = 'MESSAGE'").orderBy("sequence").collect()
    assert [(row.sequence, row.fragments, row.body.Ask.name) for row in rows] == [
        (0, 1, "0"),
        (3, 3, name),
        (4, 1, "4"),
    ]
    assert bytes(rows[1].content) == body
    (found,) = in_order(read).collect()
    assert (found.complete, found.gaps, found["count"]) == (True, [], 4)
    assert [row.why for row in read_set_aside(spark, bootstrap=kafka, service="loans").collect()] == [
        Rule.FRAGMENT.value
    ]
    stream = stream_dialogs(spark, bootstrap=kafka, service="loans", contract=LOANS)
    streamed = drained(stream, tmp_path).where(col("conversation_id") == str(talk.id)).orderBy("sequence").collect()
    assert [(row.sequence, row.fragment, row.fragments) for row in streamed] == [
        (0, 0, 1), (1, 0, 3), (2, 1, 3), (3, 2, 3), (4, 0, 1), (5, 0, 1),
    ]  # fmt: skip
