"""Dialogs between two clusters: one is read from both sides, and the audit spans both."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from conversations import Client, Kafka
from conversations.kafka.clients import make_producer
from conversations.kafka.forwarder import Forwarder
from conversations.protocol.integrity import CRC, checksum
from conversations.protocol.topics import DEAD_LETTER, QUEUE, service_topic
from conversations_ops.broker import EmbeddedBroker
from spark_jobs import dead_letter_triage, delivery_audit
from spark_jobs.errors import SourceError
from spark_jobs.reading.dialogs import in_order, read_dialogs
from tests.chaos.checker.reader import read
from tests.chaos.checker.records import Record
from tests.integration.kafka.test_forwarder import QUESTIONS, Ask, begin, forwarding, joined, working
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
DIALOGS, LAST = 6, 3
BODY, OTHER_BODY = (Ask(n=n).model_dump_json().encode() for n in (0, 7))


@pytest.fixture(scope="module")
def clusters(kafka_bootstrap: str) -> Iterator[tuple[Kafka, Kafka]]:
    """Two clusters whose services have had dialogs with each other. Nothing runs any more."""
    here = Kafka(kafka_bootstrap, namespace=f"h{uuid4().hex[:10]}")
    with EmbeddedBroker() as broker:
        there = Kafka(broker.bootstrap, namespace=f"t{uuid4().hex[:10]}")
        asker, service, emea, home = joined(here, there, LAST)
        with working((asker.service, here), (service, there)), Client(asker.service, here) as client:
            names = begin(client, DIALOGS, LAST)
            with forwarding(Forwarder(here, emea, there), Forwarder(there, home, here)):
                until(lambda: asker.ended >= set(names), "all dialogs end", 60)
        yield here, there


def audited(capsys: pytest.CaptureFixture[str], kafka: Kafka, *more: str) -> tuple[int, dict[str, Any]]:
    where = ["--bootstrap", kafka.bootstrap, "--namespace", kafka.namespace, "--json"]
    code = delivery_audit.main([*where, *more])
    return code, json.loads(capsys.readouterr().out)


def test_a_dialog_is_read_from_both_sides(spark: SparkSession, clusters: tuple[Kafka, Kafka]) -> None:
    here, _ = clusters
    found = read_dialogs(spark, bootstrap=here, contract=QUESTIONS, clusters={"emea": {}}).persist()
    said = {(it.to_target, it.sequence, it.kind, it.body and it.body.Ask and it.body.Ask.n) for it in found.collect()}
    numbers = range(LAST + 1)
    assert said == {
        *((True, n, "MESSAGE", n) for n in numbers), *((False, n, "MESSAGE", None) for n in numbers), (False, LAST + 1, "END", None)
    }  # fmt: skip
    both = in_order(found).collect()
    assert len(both) == 2 * DIALOGS
    assert all(it.gaps == [] for it in both)
    assert {it.complete for it in both if not it.to_target} == {True}
    assert read_dialogs(spark, bootstrap=here).where("to_target").count() == 0, "alone, this cluster has one direction"
    with pytest.raises(SourceError, match="no route to a cluster 'apac'; it has emea"):
        read_dialogs(spark, bootstrap=here, clusters={"apac": {}})


def test_the_audit_spans_both_clusters(
    spark: SparkSession, clusters: tuple[Kafka, Kafka], capsys: pytest.CaptureFixture[str]
) -> None:
    here, there = clusters
    for kafka in clusters:
        code, alone = audited(capsys, kafka)
        assert (code, alone["listed"]) == (0, []), "one cluster alone has no fault"
    code, said = audited(capsys, here, "--cluster", "emea")
    assert (code, said["listed"]) == (0, [])
    totals = said["totals"]
    numbered = DIALOGS * (LAST + 1)
    assert (totals["dialogs"], totals["directions"]) == (DIALOGS, 2 * DIALOGS)
    assert (totals["sent"], totals["accepted"]) == (2 * numbered + DIALOGS, 2 * numbered + DIALOGS)
    whole, damaged = planted(there)
    code, said = audited(capsys, here, "--cluster", "emea", "--service", "asker")
    assert code == 1
    assert said["by_name"] == {"number-twice": 1}, f"{whole} is found, and {damaged} is discarded"


def test_triage_groups_the_letters_of_both_clusters(
    spark: SparkSession, clusters: tuple[Kafka, Kafka], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here, there = clusters
    foreign(here, "asker", 1)
    foreign(there, "answerer", 2)
    where = ["--bootstrap", here.bootstrap, "--namespace", here.namespace]

    def triaged(*more: str) -> tuple[int, list[tuple[str | None, str, int]], dict[str, Any]]:
        code = dead_letter_triage.main([*where, "--json", *more])
        told = json.loads(capsys.readouterr().out)
        return code, [(it["cluster"], it["service"], it["count"]) for it in told.get("groups", [])], told

    assert triaged()[:2] == (1, [(None, "asker", 1)])
    out = str(tmp_path / "groups")
    code, found, told = triaged("--cluster", "emea", "--out", out)
    assert (code, found) == (1, [("emea", "answerer", 2), (None, "asker", 1)])
    assert (told["letters"], told["open"], told["new"]) == (3, 3, 2)
    assert told["groups"][0]["next"] == (
        f"conversations dead-letters list answerer --detached --bootstrap={there.bootstrap} --namespace={there.namespace}"
    )
    assert told["groups"][1]["next"] == "conversations dead-letters list asker --detached"
    assert {row.cluster for row in spark.read.parquet(out).collect()} == {"emea", None}
    assert triaged("--cluster", "emea", "--service", "answerer")[:2] == (1, [("emea", "answerer", 2)])
    assert triaged("--cluster", "emea", "--service", "nobody")[0] == 2
    assert triaged("--service", "answerer")[0] == 2, "without the option, the service is not known"
    assert dead_letter_triage.main([*where, "--cluster", "emea"]) == 1
    names, first, second, *_ = capsys.readouterr().out.splitlines()
    assert [line.split("\t")[0] for line in (names, first, second)] == ["CLUSTER", "emea", "here"]


def foreign(kafka: Kafka, service: str, count: int) -> None:
    """Write records of another tool into the dead letters of a service."""
    producer = make_producer(kafka, {})
    for _ in range(count):
        producer.produce(service_topic(kafka.namespace, service, DEAD_LETTER), b"of another tool", b"k", 0)
    assert producer.flush(30) == 0


def planted(there: Kafka) -> tuple[str, str]:
    """Append a record with a number that was used, with another body, whole and damaged."""
    queue = service_topic(there.namespace, "answerer", QUEUE)
    record = next(it for it in read(there.bootstrap, [queue]).records if it.value and BODY in it.value)
    return append(there, record, record.value or b""), append(there, record, (record.value or b"")[:-1] + b"x")


def append(there: Kafka, record: Record, summed: bytes) -> str:
    """Append a record again with another body. Its checksum is that of the value ``summed`` with the other body."""
    value = (record.value or b"").replace(BODY, OTHER_BODY)
    right = checksum(record.key, summed.replace(BODY, OTHER_BODY))
    producer = make_producer(there, {})
    producer.produce(record.topic, value, record.key, record.partition, headers=[(CRC, right)])
    producer.flush(30)
    return f"{record.topic} with checksum {right.hex()}"
