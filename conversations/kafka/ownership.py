"""Asks a cluster which partitions of a service have an owner now, and which partitions of a transmission topic have a forwarder."""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaException

from conversations.config import Kafka
from conversations.kafka.clients import REQUEST_TIMEOUT, make_admin, translated
from conversations.protocol.topics import QUEUE, forwarders_group, service_topic, transmission_topic


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
    admin = make_admin(kafka)  # kept until the answer: futures of a freed client never resolve
    try:
        answer: Any = admin.describe_consumer_groups([group], request_timeout=REQUEST_TIMEOUT)[group].result()
    except KafkaException as failure:
        raise translated(kafka, f"group {group} cannot be described", failure) from failure
    return frozenset(
        place.partition
        for member in answer.members
        if member.assignment is not None
        for place in member.assignment.topic_partitions
        if place.topic == topic
    )
