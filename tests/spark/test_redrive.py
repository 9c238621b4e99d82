"""Failed messages chosen with SQL: shown first, then frozen in a plan that the ordinary command carries out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pydantic import BaseModel
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from conversations import Client, Contract, Dialog, PoisonPolicy, Service, Then, WorkerSettings
from conversations.config import Kafka
from conversations.crew import Crew, kafka_worker
from conversations.kafka.admin import apply
from conversations.protocol.command import Action, Failed
from conversations.protocol.parked import Decision, Parked
from conversations_ops.operate.parked import parked_messages
from conversations_ops.operate.redrive.drive import Drive
from conversations_ops.operate.redrive.journal import History, Journal
from conversations_ops.operate.redrive.outcomes import End, Outcome
from conversations_ops.operate.redrive.plan import PlannedLetter, from_json
from spark_jobs.redrive import PredicateError, letters_of, main, summary, transform
from tests.support.waiting import until

SINCE = 1_790_000_000_000_000
AT = datetime.fromtimestamp(SINCE / 1_000_000, UTC)


def parked(letter: str, failure: str, body: bytes, **more: Any) -> Parked:
    fields = {
        "service": "orders", "conversation": "0199c1f2-0000-7000-8000-000000000001", "initiator": False, "key": "k",
        "contract": "Orders", "peer": "web", "handler": Failed.MESSAGE, "number": 3, "what": "Order", "attempts": 4,
        "since": SINCE, "due": None, "behind": 2, "size": 10, "ticket": 77,
    }  # fmt: skip
    return Parked(letter=letter, failure=failure, body=body, **{**fields, **more})


HELD = [
    parked("orders.queue-0-1", "TimeoutError: timeout of the bank", b'{"amount": 120}'),
    parked("orders.queue-0-2", "TimeoutError: timeout: the bank", b'{"amount": 80}', behind=5, since=SINCE + 1_000_000),
    parked("orders.queue-0-3", "KeyError: 'x'", b"\xff\xfe", what="Raw"),
    parked("orders.timer-1-target", "TimeoutError", b"", what="TIMER", number=-1, handler=Failed.TIMER, behind=0),
]


def chosen(spark: SparkSession, where: str) -> list[str]:
    return sorted(row.letter for row in transform(letters_of(spark, HELD), where).collect())


def test_letters_are_chosen_by_what_sql_can_say(spark: SparkSession) -> None:
    assert chosen(spark, "true") == [it.letter for it in HELD]
    large = "exception_message like '%timeout%' and get_json_object(body, '$.amount') > 100"
    assert chosen(spark, large) == ["orders.queue-0-1"]
    assert chosen(spark, "exception = 'TimeoutError' and sequence is null") == ["orders.timer-1-target"]
    assert chosen(spark, "body is null and content = X'FFFE'") == ["orders.queue-0-3"]
    assert chosen(spark, "failed_at > timestamp_micros(1790000000000000) and behind = 5") == ["orders.queue-0-2"]
    assert chosen(spark, "exception_message = 'timeout: the bank' and failure like 'TimeoutError: %'") == [
        "orders.queue-0-2"
    ]


def test_letters_are_counted_by_what_they_have_in_common(spark: SparkSession) -> None:
    found = summary(letters_of(spark, HELD))
    rows = [
        ("orders", "TimeoutError", "Order", 2, 7, AT, datetime.fromtimestamp(SINCE / 1_000_000 + 1, UTC)),
        ("orders", "KeyError", "Raw", 1, 2, AT, AT), ("orders", "TimeoutError", "TIMER", 1, 0, AT, AT),
    ]  # fmt: skip
    assertDataFrameEqual(found, spark.createDataFrame(rows, found.schema), checkRowOrder=True)
    assert summary(letters_of(spark, [])).count() == 0


@pytest.mark.parametrize("where", ["exeption = 'x'", "exception = = 1", "behind", "nonsense("])
def test_what_is_no_predicate_is_refused_with_the_columns(spark: SparkSession, where: str) -> None:
    with pytest.raises(
        PredicateError, match=r"cannot be used: .*\nthe columns are: letter, service, contract, peer, conv"
    ):
        transform(letters_of(spark, HELD), where)


# -- on a real Kafka -----------------------------------------------------------------------------------------------------


class Entry(BaseModel):
    amount: int
    text: str


ENTRIES = Contract("Entries", sent_by_initiator=[Entry])


@pytest.fixture
def mended() -> Event:
    """Set when the service can handle what it failed at."""
    return Event()


@pytest.fixture
def letters(kafka: Kafka, mended: Event) -> Iterator[list[str]]:
    """Five dialogs of a fragile service that runs wait, each behind its first message."""
    asker = Service("asker", initiates=[ENTRIES])
    fragile = Service("fragile", accepts=[ENTRIES], poison=[PoisonPolicy(delays=[], then=Then.HOLD)])

    @fragile.on(Entry)
    def take(entry: Entry, dialog: Dialog) -> None:
        if entry.text and not mended.is_set():
            if entry.text == "bank":
                raise TimeoutError("timeout of the bank")
            raise ValueError(entry.text)

    apply(kafka, [asker.declaration(), fragile.declaration()], 2, 1)
    workers = [kafka_worker(service, kafka, WorkerSettings()) for service in (asker, fragile)]
    with Crew(workers, kafka), Client(asker, kafka) as client:
        for text, amount in (("bank", 50), ("bank", 150), ("bank", 250), ("other", 350), ("other", 450)):
            with client.begin_dialog("fragile", ENTRIES) as dialog:
                dialog.send(Entry(amount=amount, text=text))
                dialog.send(Entry(amount=amount, text=""))
        until(lambda: sum(it.behind for it in parked_messages(kafka, "fragile") if it.held) == 5, "all wait")
        yield [it.letter for it in parked_messages(kafka, "fragile")]


@pytest.mark.kafka
def test_a_plan_holds_what_matched_and_is_carried_out_by_the_ordinary_command(
    spark: SparkSession, kafka: Kafka, letters: list[str], mended: Event, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    file = tmp_path / "plan.json"
    where = "exception_message like '%timeout%' and get_json_object(body, '$.amount') > 100"

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["--bootstrap", kafka.bootstrap, "--namespace", kafka.namespace, *arguments])
        return code, *capsys.readouterr()

    code, told, _ = run("--where", where)
    assert code == 0
    assert told.startswith(
        "2 of 5 letters that wait for a decision match, 2 records wait behind them\nletters  behind  ser"
    )
    assert "2        2       fragile  TimeoutError  Entry" in told
    assert "nothing is changed; next: run the same command with --out" in told
    assert list(tmp_path.iterdir()) == []

    code, told, _ = run("--where", where, "--service", "fragile", "--out", str(file), "--canary", "1", "--json")
    said = json.loads(told)
    assert (code, said["letters"], said["waiting"], said["matching"]) == (0, 2, 5, 2)
    assert [(group["exception"], group["letters"]) for group in said["groups"]] == [("TimeoutError", 2)]
    plan = from_json(file.read_text())
    held = {it.letter: it for it in parked_messages(kafka, "fragile") if it.failure.startswith("TimeoutError")}
    expected = [it for it in held.values() if json.loads(it.body)["amount"] > 100]
    assert plan.letters == tuple(PlannedLetter(it.letter, "fragile", it.ticket, it.failure, 1) for it in expected)
    assert (plan.selector.where, plan.selector.service, plan.care.canary) == (where, "fragile", 1)
    older = json.loads(file.read_text())
    del older["selector"]["where"]
    assert from_json(json.dumps(older)).letters == plan.letters, "plans made before there were predicates"
    assert [it.letter for it in parked_messages(kafka, "fragile")] == letters, "nothing is changed yet"

    mended.set()
    decision = Decision(Action.RETRY, "me", "INC-4711")
    with Journal(kafka, History(plan.redrive), 0) as journal:
        drive = Drive(kafka, plan, journal, decision, lambda: parked_messages(kafka), lambda _: None)
        assert drive.run() is End.DONE
    assert drive.outcomes.counts()[Outcome.HANDLED] == 2
    left = [it.letter for it in parked_messages(kafka, "fragile")]
    assert left == [it for it in letters if it not in drive.outcomes], "the others wait as before"

    code, told, _ = run("--where", "attempts > 100", "--out", str(tmp_path / "none.json"))
    assert (code, told) == (0, "none of 3 letters that wait for a decision matches\n")
    assert not (tmp_path / "none.json").exists()
    code, _, error = run("--where", "cast(exception_message as int) > 1")
    assert code == 2
    assert "fails on a letter: " in error
    code, _, error = run("--where", "exeption = 'x'")
    assert code == 2
    assert "the columns are: letter, " in error
    code, _, error = run("--where", "true", "--out", str(tmp_path / "no" / "plan.json"))
    assert code == 2
    assert "plan.json: No such file or directory" in error
