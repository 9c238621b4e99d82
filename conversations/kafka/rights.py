"""The rights that a worker needs on its service's own topics and ids, and the missing right behind an error."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaError

from conversations.kafka.clients import Topic
from conversations.protocol.topics import COMMANDS, DEAD_LETTER, QUEUE, STATE

NEEDED: Mapping[str, tuple[str, ...]] = {
    QUEUE: ("READ",),
    COMMANDS: ("READ", "WRITE"),
    STATE: ("READ", "WRITE"),
    DEAD_LETTER: ("WRITE",),
}
"""By kind of topic. Events and retry topics are written too, but no work needs them."""


def missing(topics: Mapping[str, Topic]) -> list[str]:
    """Name the rights on a service's own topics that this client lacks."""
    return [
        f"{operation} on topic {name} is missing"
        for name, topic in topics.items()
        for operation in NEEDED.get(name.rpartition(".")[2], ())
        if not topic.may(operation)
    ]


def told(error: KafkaError, *, topic: str = "", group: str = "", transactional_id: str = "") -> str:
    """Name the right whose lack an error tells of, as the end of a sentence; empty when it tells of none."""
    code = error.code()
    if code == KafkaError.TOPIC_AUTHORIZATION_FAILED and topic:
        return f": READ on topic {topic} is missing"
    # A member hears it as a fatal error of its client, which only the text tells apart.
    fatal = code == KafkaError._FATAL and "Group authorization failed" in error.str()  # noqa: SLF001
    if group and (fatal or code == KafkaError.GROUP_AUTHORIZATION_FAILED):
        return f": READ on group {group} is missing"
    if code == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED and transactional_id:
        return f": WRITE on transactional id {transactional_id} is missing"
    return ""
