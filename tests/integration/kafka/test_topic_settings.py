"""Settings of topics on a real cluster: applied, brought to what is needed, looked at by a worker that starts."""

import logging
import os
from collections.abc import Iterator, Mapping
from datetime import timedelta
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported at run time, not in its types
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)

from conversations.config import Kafka
from conversations.errors import LogError
from conversations.kafka.admin import apply, create_metrics_topic
from conversations.kafka.clients import make_admin, make_producer
from conversations.kafka.connection import KafkaConnection
from conversations.kafka.topic_settings import read_settings, wanted
from conversations.protocol.declarations import ServiceDeclaration
from conversations.protocol.topics import SERVICE_TOPICS
from tests.integration.kafka.members import Member, delete_topics, topic, until

pytestmark = pytest.mark.kafka

ORDERS = ServiceDeclaration("orders", retries=["5s"])
DAY = 24 * 3600 * 1000


@pytest.fixture
def empty(kafka_bootstrap: str) -> Iterator[Kafka]:
    """A namespace nobody applied anything to."""
    kafka = Kafka(kafka_bootstrap, namespace=f"t{uuid4().hex[:10]}")
    yield kafka
    delete_topics(kafka)


def settings_of(kafka: Kafka, name: str) -> Mapping[str, str]:
    found = read_settings(make_admin(kafka), kafka, [name])[name]
    assert found is not None
    return found


def alter(kafka: Kafka, name: str, setting: str, value: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result()
    until(lambda: settings_of(kafka, name)[setting] == value)  # a broker learns of it a moment later


def test_apply_gives_every_topic_its_settings(empty: Kafka) -> None:
    apply(empty, [ORDERS], 1, 1)
    create_metrics_topic(empty, 1)
    kinds = {f"orders.{kind}": kind for kind in SERVICE_TOPICS} | {"orders.retry.5s": "retry"}
    kinds |= {kind: kind for kind in ("catalog", "events", "metrics")}
    for name, kind in kinds.items():
        found = settings_of(empty, f"{empty.namespace}.{name}")
        assert {setting: found[setting] for setting in wanted(kind)} == wanted(kind)


def test_apply_keeps_inputs_for_as_long_as_dialogs_live(empty: Kafka) -> None:
    apply(empty, [ServiceDeclaration("orders", lifetime=timedelta(days=30))], 1, 1)
    assert int(settings_of(empty, topic(empty, "queue"))["retention.ms"]) > 30 * DAY


def test_apply_brings_topics_to_what_is_needed_and_leaves_better_choices(empty: Kafka) -> None:
    apply(empty, [ORDERS], 1, 1)
    state, queue, events = topic(empty, "state"), topic(empty, "queue"), f"{empty.namespace}.events"
    alter(empty, state, "delete.retention.ms", "1000")
    alter(empty, state, "segment.ms", "60000")
    alter(empty, queue, "retention.ms", str(30 * DAY))
    alter(empty, queue, "compression.type", "producer")
    alter(empty, events, "message.timestamp.type", "CreateTime")
    lines = apply(empty, [ORDERS], 1, 1)
    assert sorted(lines) == [
        f"changed compression.type of topic {queue} from producer to uncompressed",
        f"changed delete.retention.ms of topic {state} from 1000 to {DAY}",
        f"changed message.timestamp.type of topic {events} from CreateTime to LogAppendTime",
    ]
    assert settings_of(empty, queue)["retention.ms"] == str(30 * DAY), "longer is safe, and somebody's choice"
    assert settings_of(empty, state)["segment.ms"] == "60000", "of speed alone"
    until(lambda: apply(empty, [ORDERS], 1, 1) == [])


@pytest.mark.parametrize(
    ("kind", "setting", "value", "need"),
    [
        ("state", "cleanup.policy", "delete", "compact"),
        ("state", "delete.retention.ms", "1000", "at least 86400000"),
        ("state", "message.timestamp.type", "CreateTime", "LogAppendTime"),
        ("state", "max.message.bytes", "500000", "at least 2097152"),
        ("dead-letter", "cleanup.policy", "compact", "delete"),
        ("queue", "cleanup.policy", "compact", "delete"),
        ("queue", "retention.ms", "3600000", "at least 87000000"),
        ("commands", "retention.ms", "3600000", "at least 87000000"),
        ("commands", "message.timestamp.type", "CreateTime", "LogAppendTime"),
    ],
)
def test_a_worker_does_not_start_on_unsafe_settings(
    kafka: Kafka, kind: str, setting: str, value: str, need: str
) -> None:
    name = topic(kafka, kind)
    alter(kafka, name, setting, value)
    connection = KafkaConnection(kafka, "orders")
    with pytest.raises(LogError) as refused:
        connection.join(Member(kafka))
    assert f"{name}: {setting} is {value} and must be {need}" in str(refused.value)
    assert "conversations apply" in str(refused.value)


def test_what_is_only_unwise_is_a_warning(kafka: Kafka, caplog: pytest.LogCaptureFixture) -> None:
    name = topic(kafka, "queue")
    alter(kafka, name, "compression.type", "producer")
    alter(kafka, name, "retention.bytes", "1000000000")
    with caplog.at_level(logging.WARNING, "conversations.kafka"):
        Member(kafka).join().connection.close()
    assert (
        f"{name}: compression.type is producer and must be uncompressed; 'conversations apply' sets it" in caplog.text
    )
    assert f"{name}: retention.bytes is 1000000000 and must be -1" in caplog.text


@pytest.mark.parametrize("kind", ["queue", "commands"])
@pytest.mark.parametrize("packing", ["gzip", "lz4", "zstd", "none"])
def test_a_brokers_limit_is_on_what_is_unpacked(kafka: Kafka, kind: str, packing: str) -> None:
    """Twenty megabytes that pack into twenty kilobytes are nothing a worker should have to unpack."""
    safe = {"compression.type": packing, "message.max.bytes": 100_000_000}
    assert delivered(kafka, topic(kafka, kind), safe, bytes(20_000_000)) == "MSG_SIZE_TOO_LARGE"
    assert delivered(kafka, topic(kafka, kind), safe, bytes(1_900_000)) == ""


def test_our_batches_fit_the_limit_unpacked(kafka: Kafka) -> None:
    """Also when somebody's settings ask for larger ones: the broker would refuse the whole batch."""
    greedy = Kafka(kafka.bootstrap, namespace=kafka.namespace, settings={"batch.size": 50_000_000, "linger.ms": 500})
    producer = make_producer(greedy, {"message.max.bytes": 100_000_000, "compression.type": "lz4"})
    refused: list[object] = []
    for _ in range(20):
        producer.produce(topic(kafka, "queue"), os.urandom(900_000), on_delivery=lambda e, _: refused.append(e))
    assert producer.flush(30) == 0
    assert refused == [None] * 20


def delivered(kafka: Kafka, name: str, settings: Mapping[str, object], value: bytes) -> str:
    errors: list[str] = []
    producer = Producer({"bootstrap.servers": kafka.bootstrap, **settings})
    producer.produce(name, value, on_delivery=lambda error, _: errors.append("" if error is None else error.name()))
    assert producer.flush(30) == 0
    return errors[0]
