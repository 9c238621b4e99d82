"""The checker as a command, on a real Kafka that holds what a run on the log in memory has left."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from conversations.config import Kafka
from tests.chaos.checker.__main__ import KAFKA, USAGE, VIOLATED, main
from tests.chaos.checker.reader import read
from tests.chaos.checker.records import Log, Record
from tests.chaos.plan import Injected
from tests.chaos.proof import prove
from tests.chaos.run import Result
from tests.unit.chaos.clean_run import Run, run

PATIENCE = 30.0

pytestmark = pytest.mark.kafka


@pytest.fixture
def clean() -> Run:
    """A run in a namespace of its own."""
    return renamed(run(5, faulty=False), f"t-{uuid4().hex[:8]}")


def renamed(clean: Run, namespace: str) -> Run:
    before = clean.plan.namespace

    def name(topic: str) -> str:
        return f"{namespace}{topic.removeprefix(before)}"

    def text(value: bytes | None) -> bytes | None:
        return value and value.replace(f"{before}.".encode(), f"{namespace}.".encode())

    records = [
        record._replace(
            topic=name(record.topic),
            value=text(record.value) if record.topic == f"{before}.events" else record.value,
            headers=tuple((header, text(value) if header == "dl.source-topic" else value) for header, value in record.headers),
        )
        for record in clean.log.records
    ]  # fmt: skip
    injected = {(name(topic), number, at): kind for (topic, number, at), kind in clean.plan.injected.items()}
    return replace(
        clean,
        log=Log(records, {(name(topic), partition): end for (topic, partition), end in clean.log.ends.items()}),
        plan=replace(clean.plan, namespace=namespace, injected=injected),
    )


@pytest.fixture
def topics(kafka_bootstrap: str, clean: Run) -> None:
    """The topics of the run, empty."""
    counts: dict[str, int] = {}
    for topic, partition in clean.log.ends:
        counts[topic] = max(counts.get(topic, 0), partition + 1)
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    for created in admin.create_topics([NewTopic(name, count, 1) for name, count in counts.items()]).values():
        created.result(PATIENCE)


def produce(bootstrap: str, records: list[Record]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for record in sorted(records, key=lambda record: record.offset):
        producer.produce(
            record.topic, record.value, record.key, record.partition, timestamp=record.timestamp,
            headers=list(record.headers),
        )  # fmt: skip
    assert producer.flush(PATIENCE) == 0


def keep(directory: Path, clean: Run) -> Path:
    plan = clean.plan
    where = [list(position) for position in plan.injected]
    (directory / "plan.json").write_text(
        json.dumps({
            "namespace": plan.namespace, "dialogs": dict(plan.dialogs), "ends": list(plan.ends),
            "faults": {"injected": {"count": len(where), "where": where}},
        }),
        encoding="utf-8",
    )  # fmt: skip
    lines = [json.dumps(note._asdict()) for notes in clean.notes.values() for note in notes]
    (directory / f"{plan.target}-1.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return directory


def test_a_run_that_lost_something_ends_with_1_and_says_what(
    kafka_bootstrap: str, topics: None, clean: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = replace(clean, plan=replace(clean.plan, dialogs={**clean.plan.dialogs, str(uuid4()): 3}))
    produce(kafka_bootstrap, list(clean.log.records))
    code = main(["--bootstrap", kafka_bootstrap, "--records", str(keep(tmp_path, lost)), "--json"])
    verdict = json.loads(capsys.readouterr().out)
    assert code == VIOLATED
    # Not alone: records copied to Kafka close up over the markers between them. That a clean run ends with 0 is seen on
    # every chaos run.
    assert "command lost" in {violation["name"] for violation in verdict["violations"]}


def test_services_are_judged_although_a_reader_has_left_nothing(
    kafka_bootstrap: str, topics: None, clean: Run, tmp_path: Path
) -> None:
    produce(kafka_bootstrap, list(clean.log.records))
    (tmp_path / "archive").mkdir()
    kafka = Kafka(kafka_bootstrap, namespace=clean.plan.namespace)
    proof = prove(kafka, keep(tmp_path, clean), Result(1.0, {}, Injected(), [], {}), {"archive": tmp_path / "archive"})
    assert not proof.clean
    assert proof.figures["dialogs"] > 0
    assert any("has no commit" in line for line in proof.wrong)


def test_the_reader_takes_what_is_committed_and_says_what_is_open(kafka_bootstrap: str) -> None:
    topic = f"t-{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(PATIENCE)
    for outcome in ("commit", "abort", "open"):
        producer = Producer({"bootstrap.servers": kafka_bootstrap, "transactional.id": f"{topic}-{outcome}"})
        producer.init_transactions(PATIENCE)
        producer.begin_transaction()
        producer.produce(topic, outcome, b"key", 0, headers=[("name", b"value")])
        assert producer.flush(PATIENCE) == 0
        if outcome == "commit":
            producer.commit_transaction(PATIENCE)
        elif outcome == "abort":
            producer.abort_transaction(PATIENCE)
    log = read(kafka_bootstrap, [topic])
    assert [(r.position, r.key, r.value, r.headers) for r in log.records] == [
        ((topic, 0, 0), b"key", b"commit", (("name", b"value"),))
    ]
    # Each transaction takes two offsets: its record and its marker, which the open one has not.
    assert log == Log(log.records, {(topic, 0): 5, (topic, 1): 0}, {(topic, 0): 4, (topic, 1): 0})


def test_a_topic_that_is_missing_ends_with_3(
    kafka_bootstrap: str, clean: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = replace(clean, plan=replace(clean.plan, namespace=f"t-{uuid4().hex[:8]}"))
    assert main(["--bootstrap", kafka_bootstrap, "--records", str(keep(tmp_path, nowhere))]) == KAFKA
    assert "no topic" in capsys.readouterr().err


def test_a_directory_that_is_no_run_s_ends_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--bootstrap", "127.0.0.1:1", "--records", str(tmp_path)]) == USAGE
    assert "plan.json" in capsys.readouterr().err


def test_bad_options_end_with_2() -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--records", "."])
    assert ended.value.code == USAGE
