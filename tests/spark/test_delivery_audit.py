"""The audit finds every fault that is planted, by its name, and nothing where nothing is wrong, whatever went on."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from threading import Event, Thread
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import Row, SparkSession

from conversations import PoisonPolicy, Then
from conversations.config import Kafka
from conversations.protocol.command import Action
from conversations.protocol.envelope import decode
from conversations.protocol.identifiers import uuid_text
from conversations.protocol.parked import Decision
from conversations.protocol.topics import key_in, partition_of
from conversations.testing import Simulation
from spark_jobs import delivery_audit
from spark_jobs.audit.faults import FAULTS
from spark_jobs.audit.inputs import Inputs, read_inputs
from spark_jobs.delivery_audit import report, transform
from spark_jobs.reading.clusters import Part
from spark_jobs.reading.wire import Wire
from tests.simulation.support import records, scenarios
from tests.simulation.support.services import COUNTING, ECHO, Add, Say, counter, echo
from tests.simulation.support.worlds import Scenario, crowded, play
from tests.simulation.test_parking import Moody
from tests.simulation.test_resend import Source, Target, contract
from tests.spark.support.forging import Dialog
from tests.spark.support.planted_faults import ELSEWHERE, PLANTS, alone
from tests.spark.support.talking_services import CHATS, COPIED, EACH, SAID, Talks
from tests.spark.support.topics import Topics, topics_of_kafka, topics_of_memory
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]
Place = tuple[str | None, bool | None]
"""Dialog, and direction: to its target; a service's name where a fault is of no dialog."""


@pytest.fixture(scope="module")
def clean(kafka_bootstrap: str) -> tuple[Talks, Topics]:
    """Services that have said all kinds of things, stopped, and what they left."""
    talks = Talks(Kafka(kafka_bootstrap, namespace=f"audit{uuid4().hex[:8]}"))
    talks.run()
    return talks, topics_of_kafka(talks.kafka)


def inputs(spark: SparkSession, topics: Topics) -> Inputs:
    found = topics.inputs(spark)
    return replace(found, rows=found.rows.localCheckpoint())


def faults(spark: SparkSession, topics: Topics) -> dict[Place, set[str]]:
    """What the audit finds, by place."""
    found: dict[Place, set[str]] = defaultdict(set)
    for row in transform(inputs(spark, topics)).faults().collect():
        found[row["conversation_id"] or row["service"], row["to_target"]].add(row["fault"])
    return dict(found)


def audited(capsys: pytest.CaptureFixture[str], kafka: Kafka, *more: str) -> tuple[int, dict[str, Any]]:
    """Run the job as a program."""
    where = ["--bootstrap", kafka.bootstrap, "--namespace", kafka.namespace, "--json"]
    code = delivery_audit.main([*where, *more])
    return code, json.loads(capsys.readouterr().out)


def test_a_clean_run_has_none_and_what_is_put_behind_its_back_is_found(
    spark: SparkSession, clean: tuple[Talks, Topics], capsys: pytest.CaptureFixture[str]
) -> None:
    talks = clean[0]
    code, said = audited(capsys, talks.kafka)
    assert (code, said["faults"], said["listed"]) == (0, 0, [])
    totals = said["totals"]
    dialogs = sum(map(len, talks.dialogs.values()))
    assert (totals["dialogs"], totals["duplicates"], totals["missing"]) == (dialogs, 3 * COPIED, 0)
    assert (totals["waiting"], totals["delayed"], totals["held"]) == (3, 2, 0)
    assert totals["parked"] == EACH * 4 + 3
    assert totals["unaccounted"] == totals["in_flight"] == 0
    assert totals["cut"] == 1, "the direction to a service that does not exist"
    assert totals["sent"] >= 2 * CHATS * SAID + CHATS // 2
    assert totals["settled"] == totals["accepted"] - 3 - EACH * 3 - 3
    code, said = audited(capsys, talks.kafka, "--since", (datetime.now(UTC) + timedelta(hours=1)).isoformat())
    assert (code, said["faults"]) == (0, 0)
    assert said["totals"]["cut"] == said["totals"]["directions"]

    one, other = (Dialog(topics_of_kafka(talks.kafka), it) for it in talks.dialogs["open"][-2:])
    before = len(one.topics.records), len(other.topics.records)
    one.send(one.like(one.wire(1), body=b'{"n": 5}'))
    other.letter(other.wire(3), "after-end", offset=1_000_000)
    talks.put(*one.topics.records[before[0] :], *other.topics.records[before[1] :])
    where = [
        "--bootstrap",
        talks.kafka.bootstrap,
        "--namespace",
        talks.kafka.namespace,
        "--service",
        "desk",
        "--list",
        "1",
    ]
    assert delivery_audit.main(where) == 1
    *_, summary, listed, more = capsys.readouterr().out.splitlines()
    assert summary == "3 faults: 1 letter-unfounded, 1 number-twice, 1 settled-twice"
    lines = {
        f"  number-twice: {one.id} to the target, number 1: {FAULTS['number-twice']}",
        f"  letter-unfounded: {other.id} to the target, number 3: {FAULTS['letter-unfounded']}",
        f"  settled-twice: {other.id} to the target: {FAULTS['settled-twice']}",
    }
    assert any(listed.startswith(line) for line in lines)
    assert more == "and more: 1 lines are shown, --list shows more"


def test_the_oldest_record_that_is_left_is_looked_up(spark: SparkSession, clean: tuple[Talks, Topics]) -> None:
    talks, topics = clean
    times = sorted(it.timestamp for it in topics.of("desk", "queue"))
    since = datetime.fromtimestamp(times[len(times) // 2] / 1_000, UTC)
    extents = read_inputs(spark, [Part(Wire(talks.kafka, {}), ["desk", "web"])], since).extents.collect()
    queues = [it for it in extents if it["kind"] == "queue" and it["service"] == "desk"]
    assert any(it["start"] > 0 for it in queues)
    for it in queues:
        left = [
            r.timestamp
            for r in topics.of("desk", "queue")
            if r.partition == it["partition"] and r.offset >= it["start"]
        ]
        oldest = min(left) if it["start"] > 0 else None
        assert it["oldest"] == (None if oldest is None else oldest * 1_000)


def test_every_planted_fault_is_found_by_its_name_and_no_other(
    spark: SparkSession, clean: tuple[Talks, Topics]
) -> None:
    talks, kept = clean
    topics = Topics(kept.namespace, kept.services, list(kept.records))
    left = {kind: list(dialogs) for kind, dialogs in talks.dialogs.items()}
    wanted: dict[Place, set[str]] = defaultdict(set)
    for plant in PLANTS:
        dialog = Dialog(topics, left[plant.dialogs].pop())
        plant.put(dialog)
        for name, to_target in plant.faults:
            wanted[dialog.id, to_target].add(name)
    wanted[alone(topics, left["open"][0], initiator=False), True].add("endpoint-untraced")
    wanted[alone(topics, left["open"][0], initiator=True, next_out=SAID), True].add("missing-on-wire")
    for names, put in ELSEWHERE:
        put(topics)
        own = any(name in {"not-set-aside", "event-without-letter"} for name in names)
        wanted[None if own else "web", None].update(names)
    assert len({name for names in wanted.values() for name in names}) >= 40
    found = faults(spark, topics)
    assert {place: (found.get(place), names) for place, names in wanted.items() if found.get(place) != names} == {}
    assert found == dict(wanted)


@pytest.mark.long
def test_a_partition_without_its_row_is_one_fault_and_not_thousands(
    spark: SparkSession, clean: tuple[Talks, Topics], capsys: pytest.CaptureFixture[str]
) -> None:
    _, kept = clean
    topics = Topics(kept.namespace, kept.services, list(kept.records))
    gone = {it.partition for it in topics.of("desk", "queue")} & {0, 1}
    topics.records = [
        it
        for it in topics.records
        if it.topic != topics.name("desk", "state") or it.key != b"P" or it.partition not in gone
    ]
    found = transform(inputs(spark, topics))
    said = report(found, 100)
    assert said.data["by_name"] == {"partition-missing": len(gone)}
    assert found.directions.agg({"follow": "sum"}).collect()[0][0] > 0
    assert "partition-missing: desk partition" in said.text
    assert "may follow from that" in said.text


@pytest.mark.long
def test_services_at_work_give_no_false_alarm(
    spark: SparkSession, kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    talks, over = Talks(kafka), Event()
    with talks.at_work() as client:

        def talk() -> None:
            for number in count():
                if over.wait(0.05):  # a pace at which the audit's own reading comes to an end
                    return
                hows = ["", "skip", "", "end"] if number % 7 == 0 else [""] * 6
                talks.say(client, "live", *hows, end=number % 2 == 0)

        thread = Thread(target=talk)
        thread.start()
        try:
            until(lambda: talks.heard > 50, "services are at work")
            code, said = audited(capsys, kafka)
        finally:
            over.set()
            thread.join()
    assert said["listed"] == []
    assert (code, said["totals"]["sent"] > 100) == (0, True)


# -- without Kafka ------------------------------------------------------------------------------------------------------


def accounts(spark: SparkSession, topics: Topics) -> dict[Place, Row]:
    return {
        (it["conversation_id"], it["to_target"]): it for it in transform(inputs(spark, topics)).directions.collect()
    }


def test_each_direction_has_its_account(spark: SparkSession) -> None:
    with Simulation(echo()) as sim:
        dialog = sim.peer("web").begin_dialog("echo", ECHO)
        for text in "abc":
            dialog.send(Say(text=text))
        dialog.end()
        sim.run()
        topics = topics_of_memory(sim.broker)
    found = transform(inputs(spark, topics)).directions
    columns = "conversation_id", "to_target", "from_service", "to_service", "contract", "sent", "settled", "duplicates"
    wanted = [(dialog.id, True, "web", "echo", "Echo", 4, 4, 0), (dialog.id, False, "echo", "web", "Echo", 3, 3, 0)]
    rows = found.select(*columns, "faults").collect()
    assert sorted((tuple(row)[:-1] for row in rows), reverse=True) == wanted
    assert [row.faults for row in rows] == [[], []]


def test_what_nobody_can_tell_any_more_is_not_judged(spark: SparkSession) -> None:
    """The first half of a queue is gone by retention, and a message after it; later nobody remembers the dialogs."""
    with Simulation(echo(), partitions=1) as sim:
        for _ in range(3):
            dialog = sim.peer("web").begin_dialog("echo", ECHO)
            for text in "abcdef":
                dialog.send(Say(text=text))
            sim.run()
            sim.advance(timedelta(seconds=1))
        topics = topics_of_memory(sim.broker)
        queue = topics.name("echo", "queue")
        sent = sorted((decode(it.value or b"").seq, it.offset, it) for it in topics.of("echo", "queue"))
        lost = [it for number, _, it in sent if number == 4][-1]
        again = next(it for number, _, it in sent if number == 0)
        middle = sorted(it.offset for it in topics.of("echo", "queue"))[9]
        topics.cut[queue, 0] = middle
        topics.records = [it for it in topics.records if it.topic != queue or (it.offset >= middle and it != lost)]
        topics.append(queue, 0, *again[4:])  # after it is gone: nothing begins with it
        found = accounts(spark, topics)
        dialog_id = uuid_text(decode(lost.value or b"").prefix.conversation_id)
        assert {it["cut"] for it in found.values() if it["to_target"]} == {True}
        names = {place: {fault["fault"] for fault in it["faults"]} for place, it in found.items() if it["faults"]}
        assert names == {(dialog_id, True): {"missing-on-wire", "accepted-unsent"}}
        sim.advance(timedelta(days=3))
        found = accounts(spark, topics_of_memory(sim.broker))
    assert [it["faults"] for it in found.values() if it["faults"]] == []
    assert {it["forgotten"] for it in found.values()} == {True}


def test_what_is_gone_altogether_is_missed_where_it_must_stand(spark: SparkSession) -> None:
    """Only their sender tells of three dialogs: one went to a whole queue, one to a cut one, one to nobody's."""
    with Simulation(echo(), partitions=2) as sim:
        dialog, later = (sim.peer("web").begin_dialog(name, ECHO, wait_for_service=True) for name in ("echo", "later"))
        for each in (dialog, later):
            each.send(Say(text="a"))
        sim.run()
        topics = topics_of_memory(sim.broker)
    topics.services["later"] = {"partitions": 2}  # it has just appeared: what is for it is still kept by its sender
    there = partition_of(dialog.id.encode(), 2)
    topics.cut[topics.name("echo", "queue"), 1 - there] = 5
    lost = alone(topics, dialog.id, initiator=True, next_out=3)
    cut = alone(topics, dialog.id, initiator=True, next_out=3, peer_key=key_in(1 - there, 2))
    nowhere = alone(topics, dialog.id, initiator=True, next_out=3, peer="nobody")
    found = accounts(spark, topics)
    faults = {(*place, it["fault"], it["number"], it["count"]) for place, row in found.items() for it in row["faults"]}
    assert faults == {(lost, True, "missing-on-wire", 0, 3)}
    assert {place for place, row in found.items() if row["cut"]} == {(cut, True), (nowhere, True)}
    assert found[later.id, True]["delayed"] == 1


@pytest.mark.long
def test_a_decision_and_the_state_of_a_group_are_missed_when_they_are_gone(spark: SparkSession) -> None:
    """An operator skipped a message and edited another; the event that says so, and the rows of the groups, are removed."""
    moody = Moody(PoisonPolicy(delays=[], then=Then.HOLD))
    with Simulation(moody.service, counter(), raise_failures=False) as sim:
        decided = [sim.peer("web").begin_dialog("moody", ECHO) for _ in range(2)]
        for dialog, action in zip(decided, (Action.SKIP, Action.EDIT), strict=True):
            for text in ("a", "b 9", "c"):
                dialog.send(Say(text=text))
            sim.run()
            (it,) = sim.parked("moody")
            sim.decide(it, Decision(action, by="operator", reason="test", body=b'{"text": "B"}'))
            sim.run()
        counted = sim.peer("web").begin_dialog("counter", COUNTING)
        counted.send(Add(amount=1))
        sim.run()
        topics = topics_of_memory(sim.broker)
    assert faults(spark, topics) == {}
    topics.records = [
        it for it in topics.records if b'"RESOLVED"' not in (it.value or b"") and (it.key or b"")[:1] != b"G"
    ]
    found = faults(spark, topics)
    assert {place: names for place, names in found.items() if place[0] in {it.id for it in decided}} == {
        (decided[0].id, True): {"decision-unreported"},
        (decided[1].id, True): {"decision-unreported"},
        (decided[0].id, False): {"group-missing"},
        (decided[1].id, False): {"group-missing"},
    }
    assert found[counted.id, True] == found[counted.id, False] == {"group-missing"}


@pytest.mark.long
def test_what_was_sent_again_on_a_new_dialog_is_counted_there(spark: SparkSession) -> None:
    """Three dialogs break with two messages under way. Planted: one more was sent, one more was accepted, and the new dialog is gone."""
    talk = contract(lifetime=timedelta(minutes=5))
    target, source = Target(talk), Source(talk)
    with Simulation(target.service, source.service) as sim:
        clients = [sim.peer("web").begin_dialog("source", source.inlet) for _ in range(3)]
        for client in clients:
            client.send(Say(text="a b"))
        sim.run()
        sim.broker.stop = records.is_to("target", 2, 3)
        for client in clients:
            client.send(Say(text="c d"))
        sim.run()
        sim.advance(timedelta(minutes=6))
        sim.broker.resume()
        sim.run()
        topics = topics_of_memory(sim.broker)
    assert sorted(target.handled) == sorted("abcd" * 3)
    assert faults(spark, topics) == {}
    more, accepted, gone = (Dialog(topics, it, "source", "target") for it in sorted({it[:36] for it in target.ids}))
    more.lie(initiator=True, transmitted=4)
    accepted.lie(accepted=2)
    replaced_by = uuid_text(gone.end(initiator=True)[1]["replaced_by"])
    new = Dialog(topics, replaced_by, "source", "target")
    new.drop(new.key(b"E", initiator=True), initiator=True)
    found = faults(spark, topics)
    assert {place: names for place, names in found.items() if place[0] != replaced_by} == {
        (more.id, True): {"sent-again-less"},
        (accepted.id, True): {"sent-again-more"},
        (gone.id, True): {"sent-again-less"},
    }
    assert "sender-missing" in found[replaced_by, True]


WORLDS: list[tuple[Scenario, int]] = [
    (scenarios.parking, 16),
    (scenarios.replaying, 14),
    (scenarios.crossing, 3),
    (scenarios.sealing, 10),  # with sealed records in a wrong partition
]


@pytest.mark.parametrize(("scenario", "seed"), WORLDS, ids=lambda it: getattr(it, "__name__", str(it)))
def test_nothing_is_found_in_a_world_where_everything_goes_wrong(
    spark: SparkSession, scenario: Scenario, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers crash and lose partitions, transactions hang, records come twice, late and broken: and nothing is lost."""
    seen: list[Topics] = []
    check: Callable[[Simulation], None] = Simulation.check_invariants

    def look(sim: Simulation) -> None:
        check(sim)
        seen.append(topics_of_memory(*sim.brokers))

    monkeypatch.setattr(Simulation, "check_invariants", look)
    play(scenario, crowded(seed))
    assert faults(spark, seen[len(seen) // 2]) == {}


def test_bad_input_is_explained(
    spark: SparkSession, clean: tuple[Talks, Topics], capsys: pytest.CaptureFixture[str]
) -> None:
    kafka = clean[0].kafka
    code, said = audited(capsys, kafka, "--service", "nobody")
    assert (code, said["kind"]) == (2, "SourceError")
    assert "no service 'nobody'; it has: desk, web" in said["error"]
    code, said = audited(capsys, kafka, "--since", "yesterday")
    assert (code, "is no time: write it as" in said["error"]) == (2, True)
