"""Rights that a worker needs on its service's topics, its group and its transactional id. Errors name a missing right."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaError

from conversations.kafka.clients import Topic
from conversations.protocol.topics import COMMANDS, DEAD_LETTER, DECISIONS, QUEUE, STATE

NEEDED: Mapping[str, tuple[str, ...]] = {
    QUEUE: ("READ",),
    COMMANDS: ("READ", "WRITE"),
    DECISIONS: ("READ",),
    STATE: ("READ", "WRITE"),
    DEAD_LETTER: ("WRITE",),
}
"""Needed rights by kind of topic. A worker also writes events and retry topics, but it works without these rights."""


def missing(topics: Mapping[str, Topic]) -> list[str]:
    """Return a text for each right that this client lacks on its service's topics."""
    return [
        f"{operation} on topic {name} is missing"
        for name, topic in topics.items()
        for operation in NEEDED.get(name.rpartition(".")[2], ())
        if not topic.may(operation)
    ]


def told(error: KafkaError, *, topic: str = "", group: str = "", transactional_id: str = "") -> str:
    """Return the part of an error message that names the missing right; empty if the error has another cause."""
    code = error.code()
    if code == KafkaError.TOPIC_AUTHORIZATION_FAILED and topic:
        return f": READ on topic {topic} is missing"
    # If the right on the group is missing, a member gets a fatal error of its client. Only the error's text names the cause.
    fatal = code == KafkaError._FATAL and "Group authorization failed" in error.str()  # noqa: SLF001
    if group and (fatal or code == KafkaError.GROUP_AUTHORIZATION_FAILED):
        return f": READ on group {group} is missing"
    if code == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED and transactional_id:
        return f": WRITE on transactional id {transactional_id} is missing"
    return ""
