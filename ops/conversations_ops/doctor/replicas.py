"""How many replicas a topic needs: rules for the topics of a namespace and for Kafka's own topics."""

from __future__ import annotations

from conversations.kafka.cluster import Cluster, FoundTopic

ENOUGH = 3
"""Replicas with which one broker may stop, and another may be lost, without a loss of acknowledged records."""


def min_insync(topic: FoundTopic) -> int | None:
    """Return ``min.insync.replicas`` of a topic; None if its settings are not known."""
    value = (topic.settings or {}).get("min.insync.replicas", "")
    return int(value) if value.isdigit() else None


def has_one_replica(topic: FoundTopic, cluster: Cluster) -> bool:
    """Return True if the loss of one broker of several loses records."""
    return topic.replication == 1 and len(cluster.brokers) > 1


def has_few_replicas(topic: FoundTopic, cluster: Cluster) -> bool:
    """Return True if the cluster could keep more replicas, and the topic has more than one."""
    return 1 < topic.replication < ENOUGH <= len(cluster.brokers)


def acknowledges_alone(topic: FoundTopic) -> bool:
    """Return True if a leader may acknowledge records that no other replica has, although there are enough replicas."""
    return topic.replication >= ENOUGH and min_insync(topic) == 1


def takes_nothing(topic: FoundTopic) -> bool:
    """Return True if no record can be written, because there are fewer replicas than must be in sync."""
    return (min_insync(topic) or 1) > topic.replication


def stops_with_one(topic: FoundTopic) -> bool:
    """Return True if no record can be written as soon as one broker stops."""
    return topic.replication > 1 and min_insync(topic) == topic.replication
