"""Asks a cluster which partitions of a service have an owner now, and which partitions of a transmission topic have a forwarder."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from confluent_kafka import ConsumerGroupState, KafkaException

from conversations.config import Kafka
from conversations.kafka.clients import REQUEST_TIMEOUT, make_admin, translated
from conversations.protocol.topics import QUEUE, forwarders_group, service_topic, transmission_topic

_CHANGES: Final = frozenset({
    ConsumerGroupState.PREPARING_REBALANCING, ConsumerGroupState.COMPLETING_REBALANCING,
    ConsumerGroupState.UNKNOWN,  # librdkafka has no other name for the states ASSIGNING and RECONCILING of the new protocol
})  # fmt: skip


def settled_partitions(kafka: Kafka, services: Collection[str]) -> dict[str, frozenset[int]]:
    """Return, for each service, the partitions that a member of its consumer group has. A service whose group is changing is left out.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: the right to describe a group is missing.
    """
    groups = {f"{kafka.namespace}.{service}": service for service in services}
    return {
        groups[name]: _held(answer, service_topic(kafka.namespace, groups[name], QUEUE))
        for name, answer in _described(kafka, list(groups)).items()
        if answer.state not in _CHANGES
    }


def owned_partitions(kafka: Kafka, service: str) -> frozenset[int]:
    """Return the partitions of a service that a member of its consumer group has. A group that is changing may have given out none yet.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: the right to describe the group is missing.
    """
    return _assigned(kafka, f"{kafka.namespace}.{service}", service_topic(kafka.namespace, service, QUEUE))


def forwarded_partitions(kafka: Kafka, cluster: str) -> frozenset[int]:
    """Return the partitions of the transmission topic to a cluster that a forwarder has.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: the right to describe the group is missing.
    """
    return _assigned(kafka, forwarders_group(kafka.namespace, cluster), transmission_topic(kafka.namespace, cluster))


def _assigned(kafka: Kafka, group: str, topic: str) -> frozenset[int]:
    return _held(_described(kafka, [group])[group], topic)


def _described(kafka: Kafka, groups: list[str]) -> dict[str, Any]:
    if not groups:
        return {}
    admin = make_admin(kafka)  # kept until the answer: futures of a freed client never resolve
    found: dict[str, Any] = {}
    for group, answer in admin.describe_consumer_groups(groups, request_timeout=REQUEST_TIMEOUT).items():
        try:
            found[group] = answer.result()
        except KafkaException as failure:
            raise translated(kafka, f"group {group} cannot be described", failure) from failure
    return found


def _held(answer: Any, topic: str) -> frozenset[int]:
    return frozenset(
        place.partition
        for member in answer.members
        if member.assignment is not None
        for place in member.assignment.topic_partitions
        if place.topic == topic
    )
