"""Asks a cluster what it is made of: its brokers with their settings, and topics with their replicas, settings and rights. It writes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported at run time, not in its types
    AdminClient,
    ConfigResource,
)

from conversations.config import Kafka
from conversations.kafka.clients import REQUEST_TIMEOUT, log, make_admin, translated
from conversations.kafka.failures import forbidden
from conversations.kafka.handshake import finalized_features
from conversations.kafka.topic_settings import read_settings

INTERNAL = ("__transaction_state", "__consumer_offsets")
"""Kafka's own topics on which exactly-once depends. Kafka makes each of them when it is first needed."""

ASKED = 3
"""Maximum number of brokers that are asked for their features."""


@dataclass(frozen=True)
class Broker:
    """One broker of the cluster."""

    id: int
    address: str
    """The address that it advertises, ``host:port``."""
    settings: Mapping[str, str] | None
    """Its settings by name; None if this client may not read them."""


@dataclass(frozen=True)
class FoundPartition:
    """One partition of a topic."""

    number: int
    leader: int | None
    """Id of the broker that leads it; None if no broker does."""
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True)
class FoundTopic:
    """One topic that exists."""

    name: str
    partitions: tuple[FoundPartition, ...]
    settings: Mapping[str, str] | None = None
    """Its settings; None if this client may not read them, or if they were not asked for."""
    rights: frozenset[str] | None = None
    """Operations that this client may do on it, by their names in Kafka's ACLs; None if Kafka does not tell."""

    @property
    def replication(self) -> int:
        """The smallest number of replicas of a partition."""
        return min((len(it.replicas) for it in self.partitions), default=0)


@dataclass(frozen=True)
class Cluster:
    """The brokers of a cluster, and Kafka's own topics."""

    brokers: tuple[Broker, ...]
    internal: Mapping[str, FoundTopic] = field(default_factory=dict)
    """Those topics of ``INTERNAL`` that exist and that this client may describe."""
    hidden: frozenset[str] = frozenset()
    """Those topics of ``INTERNAL`` that this client may not describe. It is not known whether they exist."""
    features: Mapping[str, int] | None = None
    """Levels of the features that the cluster has switched on; None if no broker told."""


def look_at_cluster(kafka: Kafka) -> Cluster:
    """Ask for the brokers, their settings and features, and for Kafka's own topics.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: Kafka refused.
    """
    admin = make_admin(kafka)
    try:
        nodes = admin.describe_cluster(request_timeout=REQUEST_TIMEOUT).result().nodes
    except KafkaException as failure:
        raise translated(kafka, "the cluster cannot be described", failure) from failure
    settings = _broker_settings(admin, [node.id for node in nodes])
    brokers = tuple(
        Broker(it.id, f"{it.host}:{it.port}", settings.get(it.id)) for it in sorted(nodes, key=lambda it: int(it.id))
    )
    found, hidden = describe(admin, kafka, INTERNAL)
    configured = read_settings(admin, kafka, sorted(found))
    internal = {name: _with(topic, configured.get(name)) for name, topic in found.items()}
    return Cluster(brokers, internal, hidden, _features(kafka, nodes))


def topic_names(kafka: Kafka, beginning: str) -> list[str]:
    """Return the names of the topics that begin with a text and that this client may describe.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: Kafka refused.
    """
    try:
        found = make_admin(kafka).list_topics(timeout=REQUEST_TIMEOUT).topics
    except KafkaException as failure:
        raise translated(kafka, "topics cannot be listed", failure) from failure
    return sorted(name for name in found if name.startswith(beginning))


def look_at_topics(kafka: Kafka, names: Sequence[str]) -> tuple[dict[str, FoundTopic], frozenset[str]]:
    """Return those topics that exist, with their settings and this client's rights, and the names of those that it may not describe.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: Kafka refused.
    """
    admin = make_admin(kafka)
    found, hidden = describe(admin, kafka, names)
    settings = read_settings(admin, kafka, sorted(found))
    return {name: _with(topic, settings.get(name)) for name, topic in found.items()}, hidden


def describe(admin: AdminClient, kafka: Kafka, names: Sequence[str]) -> tuple[dict[str, FoundTopic], frozenset[str]]:
    """Return those topics that exist, without settings, and the names of those that this client may not describe.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: Kafka refused.
    """
    if not names:
        return {}, frozenset()
    answers = admin.describe_topics(
        TopicCollection(list(names)), include_authorized_operations=True, request_timeout=REQUEST_TIMEOUT
    )
    found: dict[str, FoundTopic] = {}
    hidden: set[str] = set()
    for name, answer in answers.items():
        try:
            found[name] = _topic(answer.result())
        except KafkaException as failure:
            if forbidden(failure.args[0]):
                hidden.add(name)
            elif failure.args[0].code() not in _MISSING:
                raise translated(kafka, f"topic {name} cannot be described", failure) from failure
    return found, frozenset(hidden)


def _features(kafka: Kafka, nodes: Sequence[Any]) -> dict[str, int] | None:
    """Return what the first broker that answers tells, because all of them tell the same. So many that do not answer are asked, and no more."""
    for node in nodes[:ASKED]:
        if (found := finalized_features(node.host, node.port, kafka.settings)) is not None:
            return found
    return None


_MISSING = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_EXCEPTION})


def _topic(answer: Any) -> FoundTopic:
    operations = answer.authorized_operations
    return FoundTopic(
        answer.name,
        tuple(
            FoundPartition(
                it.id,
                None if it.leader is None or it.leader.id < 0 else it.leader.id,
                tuple(node.id for node in it.replicas),
                tuple(node.id for node in it.isr),
            )
            for it in sorted(answer.partitions, key=lambda partition: int(partition.id))
        ),
        rights=None if operations is None else frozenset(operation.name for operation in operations),
    )


def _with(topic: FoundTopic, settings: Mapping[str, str] | None) -> FoundTopic:
    return replace(topic, settings=settings)


def _broker_settings(admin: AdminClient, brokers: Sequence[int]) -> dict[int, dict[str, str]]:
    """Return the settings of brokers. Brokers whose settings this client may not read are left out."""
    # librdkafka allows one broker in a request. All requests are sent before the first answer is waited for.
    asked = [ConfigResource(ConfigResource.Type.BROKER, str(number)) for number in brokers]
    answers = [admin.describe_configs([resource], request_timeout=REQUEST_TIMEOUT) for resource in asked]
    found: dict[int, dict[str, str]] = {}
    for number, resource, answer in zip(brokers, asked, answers, strict=True):
        try:
            found[number] = {name: entry.value or "" for name, entry in answer[resource].result().items()}
        except KafkaException as failure:
            # One broker that stopped just now must not hide the others.
            log.debug("settings of broker %s cannot be read: %s", number, failure)
    return found
