"""Least rights of each role on Kafka: a pure table, from the declarations of the services."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from conversations.kafka.rights import NEEDED
from conversations.protocol.declarations import ServiceDeclaration
from conversations.protocol.topics import (
    COMMANDS,
    DEAD_LETTER,
    QUEUE,
    STATE,
    catalog_topic,
    events_topic,
    feed_group,
    retry_topic,
    service_topic,
)

ROLES = ("worker", "client", "reader")


class Right(NamedTuple):
    """One right of a role, and what it is needed for."""

    resource: str
    """``topic``, ``group`` or ``transactional-id``."""
    name: str
    pattern: str
    """``LITERAL``, or ``PREFIXED`` if ``name`` is the beginning of names."""
    operation: str
    why: str


_WHY = {
    (QUEUE, "READ"): "receives messages",
    (COMMANDS, "READ"): "takes commands of clients and operators",
    (COMMANDS, "WRITE"): "forwards commands",
    (STATE, "READ"): "restores its state",
    (STATE, "WRITE"): "keeps its state",
    (DEAD_LETTER, "WRITE"): "keeps messages that failed",
}


def peers_of(service: ServiceDeclaration, others: Iterable[ServiceDeclaration]) -> list[str]:
    """Return the names of the services with which a service can have dialogs. The service itself can be one of them."""
    return sorted(
        {
            it.name
            for it in (service, *others)
            if set(service.initiates) & set(it.accepts) or set(service.accepts) & set(it.initiates)
        }
    )


def rights_of(
    role: str, namespace: str, service: ServiceDeclaration, others: Iterable[ServiceDeclaration] = ()
) -> list[Right]:
    """Return the rights of a role on one service.

    Args:
        role: one of ``ROLES``.
        namespace: the namespace of the services.
        service: the service that the role works for.
        others: other services of the namespace. The worker may write to the queues of those with which it can have dialogs.
    """
    if role == "worker":
        return list(_worker(namespace, service, others))
    catalog = _topic(catalog_topic(namespace), "READ", "finds the services")
    if role == "client":
        commands = service_topic(namespace, service.name, COMMANDS)
        return [catalog, _topic(commands, "WRITE", "begins dialogs and sends on them")]
    return [
        catalog,
        _topic(service_topic(namespace, service.name, STATE), "READ", "shows dialogs"),
        _topic(service_topic(namespace, service.name, DEAD_LETTER), "READ", "shows dead letters"),
    ]


def command_of(right: Right, principal: str) -> str:
    """Return the words of ``kafka-acls.sh`` that grant a right. The shell variable ``BOOTSTRAP`` has the address of Kafka."""
    words = ["--add", "--allow-principal", principal,
             "--operation", right.operation, f"--{right.resource}", right.name,
             "--resource-pattern-type", right.pattern.lower()]  # fmt: skip
    return f'kafka-acls.sh --bootstrap-server "$BOOTSTRAP" {shlex.join(words)}'


def _worker(namespace: str, service: ServiceDeclaration, others: Iterable[ServiceDeclaration]) -> Iterator[Right]:
    name = service.name
    needed: Mapping[str, tuple[str, ...]] = NEEDED
    for kind, operations in needed.items():
        for operation in operations:
            yield _topic(service_topic(namespace, name, kind), operation, _WHY[kind, operation])
    yield _topic(catalog_topic(namespace), "READ", "finds its peers")
    yield Right("group", f"{namespace}.{name}", "LITERAL", "READ", "shares the partitions with other workers")
    yield Right("transactional-id", f"{namespace}.{name}.", "PREFIXED", "WRITE", "writes each step as one transaction")
    for peer in peers_of(service, others):
        yield _topic(service_topic(namespace, peer, QUEUE), "WRITE", f"sends to {peer}")
    for delay in sorted(service.retries):
        yield _topic(retry_topic(namespace, name, delay), "WRITE", "shows messages that wait for another attempt")
    yield _topic(events_topic(namespace), "WRITE", "reports events")
    for topic in sorted(service.publishes):
        yield _topic(topic, "WRITE", "publishes records")
    for topic in sorted(service.reads):
        yield _topic(topic, "READ", "begins dialogs from its records")
        yield Right(
            "group", feed_group(namespace, name, topic), "LITERAL", "READ", f"remembers how far {topic} is read"
        )


def _topic(name: str, operation: str, why: str) -> Right:
    return Right("topic", name, "LITERAL", operation, why)
