"""`conversations doctor`, with the real command line on a real Kafka: what is planted is named, and nothing else; apply refuses what is fatal."""

import json
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported at run time, not in its types
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)
from confluent_kafka.cimpl import NewPartitions, NewTopic
from typer.testing import CliRunner

from conversations import Kafka
from conversations.errors import KafkaNotReady
from conversations.kafka.admin import apply
from conversations.kafka.cluster import topic_names
from conversations.kafka.offsets import ask_offset
from conversations.protocol.declarations import ServiceDeclaration
from conversations.stores.rocksdb import RocksStores
from conversations_ops.broker import EmbeddedBroker
from conversations_ops.broker.jars import ensure_jars
from conversations_ops.broker.java import find_java
from conversations_ops.broker.server import jvm
from conversations_ops.cli.app import app
from conversations_ops.read_model.file import DIRECTORY, file_name
from tests.acceptance.services.fragile import fragile
from tests.support.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]
MISCONFIGURED = {
    "auto.create.topics.enable": "true",
    "unclean.leader.election.enable": "true",
    "group.consumer.assignors": "uniform",
    "transaction.max.timeout.ms": "2000",
    # A transaction that is over its time is not ended for an hour. So it hangs, as far as this test lives.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "3600000",
    "transaction.partition.verification.enable": "false",
    "transactional.id.expiration.ms": "3600000",
    "producer.id.expiration.ms": "30000",
    "offsets.retention.minutes": "60",
    "log.cleaner.enable": "false",
    "min.insync.replicas": "2",
}
OF_BROKERS = {
    "auto-create-topics", "unclean-leader-election", "group-assignors", "transaction-timeout", "transaction-verification",
    "transactional-id-expiration", "producer-id-expiration", "offsets-retention", "log-cleaner", "internal-min-isr",
}  # fmt: skip
SETTINGS = {
    "queue": {"cleanup.policy": "compact", "compression.type": "zstd"},
    "commands": {"retention.ms": "3600000", "message.timestamp.type": "CreateTime"},
    "dead-letter": {"retention.bytes": "1000000", "min.insync.replicas": "1"},
    "state": {"delete.retention.ms": "60000", "max.message.bytes": "1000000", "unclean.leader.election.enable": "true"},
}
OF_TOPICS = {
    "cleanup-policy", "topic-setting", "queue-retention", "timestamp-type", "retention-bytes", "deletes-retention", "record-size",
    "topic-unclean-leader-election", "min-insync-too-large", "partition-count", "topic-missing", "operators-topic-missing", "plain-topic-missing",
    "hanging-transaction",
}  # fmt: skip
OF_MACHINE = {"store-damaged", "store-open", "read-model-damaged", "settings-file-open", "settings-refused"}
NOTES = {"few-brokers", "no-authorizer", "retry-topic-unused", "topic-of-no-service", "setting-without-effect"}


class Operator:
    """An operator at this machine, with a cache and local copies of their own."""

    def __init__(self, kafka: Kafka, cache: Path) -> None:
        self.kafka, self.cache = kafka, cache

    def __call__(self, *arguments: str) -> tuple[int, dict[str, Any]]:
        where = ["--bootstrap", self.kafka.bootstrap, "--namespace", self.kafka.namespace]
        environment = {"CONVERSATIONS_CACHE": str(self.cache)}
        done = CliRunner().invoke(app, [*arguments, *where, "--json"], env=environment)
        assert done.stdout, done.exception
        return done.exit_code, json.loads(done.stdout)

    def doctor(self, *arguments: str) -> tuple[int, dict[str, set[str]]]:
        """Return the exit code, and the places of each finding by its name."""
        code, told = self("doctor", *arguments)
        places: dict[str, set[str]] = {}
        for it in told["findings"]:
            places.setdefault(it["name"], set()).add(it["place"])
            assert it["why"]
            assert it["fix"]
        return code, places


def alter(kafka: Kafka, topic: str, settings: Mapping[str, str]) -> None:
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in settings.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    admin = AdminClient(
        {"bootstrap.servers": kafka.bootstrap}
    )  # kept until the answer: futures of a freed client never resolve
    admin.incremental_alter_configs([resource])[resource].result()


@pytest.fixture
def misconfigured() -> Iterator[Kafka]:
    with EmbeddedBroker(settings=MISCONFIGURED) as broker:
        yield Kafka(broker.bootstrap)


def test_a_healthy_cluster_has_neither_a_fatal_finding_nor_a_warning(kafka: Kafka, tmp_path: Path) -> None:
    tell = Operator(kafka, tmp_path)
    assert tell.doctor() == (0, {"few-brokers": {"the cluster"}, "no-authorizer": {"the cluster"}})
    target = ("tests.acceptance.services.fragile:asker", "tests.acceptance.services.fragile:fragile")
    code, told = tell("apply", *target, "--partitions", "2")
    assert code == 0
    assert not [line for line in told["changes"] if "despite" in line]
    code, found = tell.doctor(*target, "--role", "worker", "--role", "client", "--role", "reader")
    assert (code, set(found)) == (0, {"few-brokers", "no-authorizer"})


def test_the_printed_fix_mends(kafka: Kafka, tmp_path: Path) -> None:
    tell = Operator(kafka, tmp_path)
    target = "tests.acceptance.services.fragile:fragile"
    assert tell("apply", target, "--partitions", "2")[0] == 0
    state = f"{kafka.namespace}.fragile.state"
    alter(kafka, state, {"cleanup.policy": "delete", "delete.retention.ms": "1000", "min.insync.replicas": "2"})
    (tmp_path / "state" / kafka.namespace).mkdir(parents=True, mode=0o755)
    wrong = {"cleanup-policy", "deletes-retention", "min-insync-too-large", "store-open"}
    assert set(tell.doctor(target)[1]) >= wrong
    fixes = {it["name"]: shlex.split(it["fix"]) for it in tell("doctor", target)[1]["findings"]}
    assert fixes["cleanup-policy"][:2] == ["conversations", "apply"]
    assert CliRunner().invoke(app, fixes["cleanup-policy"][1:]).exit_code == 0
    assert fixes["store-open"][0] == "chmod"
    subprocess.run(fixes["store-open"], check=True)
    assert fixes["min-insync-too-large"][0] == "kafka-configs.sh"
    kafka_tool("kafka.admin.ConfigCommand", fixes["min-insync-too-large"][1:])
    assert not wrong & set(tell.doctor(target)[1])


def kafka_tool(name: str, arguments: list[str]) -> None:
    """Run one of Kafka's own tools, as its shell script does."""
    done = subprocess.run(
        [*jvm(find_java(), ensure_jars()), name, *arguments], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_planted_fault_is_named(misconfigured: Kafka, tmp_path: Path) -> None:
    kafka, tell = misconfigured, Operator(misconfigured, tmp_path)
    declarations = [fragile.declaration(), ServiceDeclaration("asker", reads=("clicks",))]
    # The brokers want two replicas in sync. This service's topics are made for one, so that they can be filled.
    plant_topics(kafka, declarations)
    settings = plant_files(kafka, tmp_path)
    hang(kafka)
    planted = OF_BROKERS | OF_TOPICS | OF_MACHINE | NOTES
    shorter = ("--setting", "worker.clock_off=1s")
    until(lambda: "hanging-transaction" in tell.doctor(*shorter)[1])
    code, found = tell.doctor(*shorter, "--settings", str(settings))
    assert code == 1
    assert set(found) == planted
    assert len(planted - NOTES) >= 12
    name = f"{kafka.namespace}.fragile"
    assert found["topic-missing"] == {f"{kafka.namespace}.asker.state"}
    assert found["partition-count"] == {f"{kafka.namespace}.asker.queue"}
    assert found["deletes-retention"] == found["record-size"] == {f"{name}.state"}
    assert found["hanging-transaction"] == {f"{name}.queue, partition 1"}
    assert found["plain-topic-missing"] == {"clicks"}
    assert found["topic-of-no-service"] == {f"{kafka.namespace}.gone.queue"}
    assert found["retry-topic-unused"] == {f"{name}.retry.3m"}


def is_led(kafka: Kafka, topic: str) -> bool:
    try:
        return ask_offset(kafka, topic, 0, timeout=1) == 0
    except KafkaNotReady:
        return False


def plant_topics(kafka: Kafka, declarations: list[ServiceDeclaration]) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    writable = {"min.insync.replicas": "1"}
    made = [NewTopic(f"{kafka.namespace}.catalog", 1, 1, config={"cleanup.policy": "compact", **writable})]
    made.append(NewTopic(f"{kafka.namespace}.fragile.retry.3m", 2, 1, config=writable))
    made.append(NewTopic(f"{kafka.namespace}.gone.queue", 2, 1, config=writable))
    for answer in admin.create_topics(made).values():
        answer.result()
    until(lambda: is_led(kafka, f"{kafka.namespace}.catalog"))
    apply(kafka, declarations, 2, 1)
    for kind, settings in SETTINGS.items():
        alter(kafka, f"{kafka.namespace}.fragile.{kind}", {**writable, **settings})
    admin.create_partitions([NewPartitions(f"{kafka.namespace}.asker.queue", 3)])[
        f"{kafka.namespace}.asker.queue"
    ].result()
    gone = {f"{kafka.namespace}.asker.state", f"{kafka.namespace}.operators"}
    for deleted in admin.delete_topics(sorted(gone)).values():
        deleted.result()
    until(lambda: not gone & set(topic_names(kafka, kafka.namespace)))


def plant_files(kafka: Kafka, cache: Path) -> Path:
    """Make a local copy with a broken block that all may read, a read model that is none, and a settings file with a password."""
    copy = cache / "state" / kafka.namespace / "fragile" / "here-1"
    store = RocksStores(copy).open(0, "topic")
    store.apply([(b"Ea%d" % number, b"row" * 100) for number in range(1_000)], 7)
    store.close()
    table = next((copy / "0").glob("*.sst"))
    content = bytearray(table.read_bytes())
    content[100:200] = bytes(100)
    table.write_bytes(content)
    (copy / "0").chmod(0o755)
    (cache / DIRECTORY).mkdir(mode=0o700)
    model = cache / DIRECTORY / file_name(kafka)
    model.write_bytes(b"no database" * 100)
    model.chmod(0o600)
    settings = cache / "shop.settings"
    settings.write_text("sasl.password=secret\nacks=1\nworker.clock_off=1s\n")
    settings.chmod(0o644)
    return settings


def hang(kafka: Kafka) -> None:
    """Leave a transaction open whose process is gone."""
    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "transactional.id": "dead",
            "transaction.timeout.ms": 2_000,
            "message.timeout.ms": 2_000,
        }
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(f"{kafka.namespace}.fragile.queue", b"never ended", key=b"a", partition=1)
    assert producer.flush(30) == 0


def test_apply_refuses_a_cluster_that_is_not_fit_and_changes_nothing(misconfigured: Kafka, tmp_path: Path) -> None:
    tell = Operator(misconfigured, tmp_path)
    target = ("tests.acceptance.services.fragile:asker", "--partitions", "1")
    code, told = tell("apply", *target)
    assert (code, told["kind"]) == (1, "ClusterUnfit")
    assert "unclean-leader-election: broker 1" in told["error"]
    assert "group-assignors: broker 1" in told["error"]
    assert "--add-config unclean.leader.election.enable=false" in told["error"]
    assert topic_names(misconfigured, f"{misconfigured.namespace}.") == []
    assert tell("apply", *target, "--despite", "unclean-leader-election")[0] == 1
    assert tell("apply", *target, "--despite", "log-cleaner")[0] == 2
    assert topic_names(misconfigured, f"{misconfigured.namespace}.") == []


def test_apply_goes_on_despite_what_a_person_knows_better(kafka_bootstrap: str, tmp_path: Path) -> None:
    with EmbeddedBroker(settings={"unclean.leader.election.enable": "true"}) as broker:
        tell = Operator(Kafka(broker.bootstrap), tmp_path)
        target = ("tests.acceptance.services.fragile:asker", "--partitions", "1")
        assert tell("apply", *target)[0] == 1
        code, told = tell("apply", *target, "--despite", "unclean-leader-election")
        assert code == 0
        assert told["changes"][0].startswith("went on despite unclean-leader-election: broker 1")
        code, told = tell("doctor")
        (fix,) = (it["fix"] for it in told["findings"] if it["severity"] == "fatal")
        kafka_tool("kafka.admin.ConfigCommand", shlex.split(fix)[1:])
        until(lambda: tell("apply", *target)[0] == 0)
        assert tell.doctor()[0] == 0


def test_nobody_answers(tmp_path: Path) -> None:
    assert Operator(Kafka("127.0.0.1:1"), tmp_path)("doctor")[0] == 3
