"""Least rights of each role on Kafka: a pure table, from the declarations of the services."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from conversations.kafka.rights import NEEDED
from conversations.protocol.declarations import ServiceDeclaration
from conversations.protocol.topics import (
    COMMANDS,
    DEAD_LETTER,
    QUEUE,
    SERVICE_TOPICS,
    STATE,
    catalog_topic,
    events_topic,
    feed_group,
    metrics_topic,
    retry_topic,
    service_topic,
)


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
    return list(_ROLES[role](namespace, service, others))


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


def _client(namespace: str, service: ServiceDeclaration, _others: Iterable[ServiceDeclaration]) -> Iterator[Right]:
    yield _catalog(namespace)
    yield _topic(service_topic(namespace, service.name, COMMANDS), "WRITE", "begins dialogs and sends on them")


def _reader(namespace: str, service: ServiceDeclaration, _others: Iterable[ServiceDeclaration]) -> Iterator[Right]:
    yield _catalog(namespace)
    yield _topic(service_topic(namespace, service.name, STATE), "READ", "shows dialogs")
    yield _topic(service_topic(namespace, service.name, DEAD_LETTER), "READ", "shows dead letters")


def _spark(namespace: str, service: ServiceDeclaration, _others: Iterable[ServiceDeclaration]) -> Iterator[Right]:
    yield _catalog(namespace)
    yield _topic(service_topic(namespace, service.name, QUEUE), "READ", "reads messages")
    # Spark is in no consumer group that Kafka knows, and reads no commands. It only leaves out services whose topics are missing.
    yield _topic(service_topic(namespace, service.name, COMMANDS), "DESCRIBE", "sees that the topics exist")
    yield _topic(service_topic(namespace, service.name, STATE), "READ", "reads the state of dialogs")
    yield _topic(service_topic(namespace, service.name, DEAD_LETTER), "READ", "reads dead letters")
    yield _topic(events_topic(namespace), "READ", "compares the messages with the events")


def _operator(namespace: str, service: ServiceDeclaration, _others: Iterable[ServiceDeclaration]) -> Iterator[Right]:
    name = service.name
    yield _catalog(namespace)
    yield _topic(service_topic(namespace, name, QUEUE), "READ", "counts the messages that are not read yet")
    yield _topic(service_topic(namespace, name, COMMANDS), "WRITE", "writes decisions")
    yield _topic(service_topic(namespace, name, STATE), "READ", "shows dialogs, queues and retries")
    yield _topic(service_topic(namespace, name, DEAD_LETTER), "READ", "shows dead letters")
    yield Right("group", f"{namespace}.{name}", "LITERAL", "DESCRIBE", "sees which partitions have a worker")
    yield _topic(events_topic(namespace), "READ", "waits for the answers of the workers")
    yield _topic(events_topic(namespace), "WRITE", "records who decided what, and why")


def _console(namespace: str, service: ServiceDeclaration, others: Iterable[ServiceDeclaration]) -> Iterator[Right]:
    yield from _reader(namespace, service, others)
    yield from _operator(namespace, service, others)
    for delay in sorted(service.retries):
        yield _topic(retry_topic(namespace, service.name, delay), "READ", "shows when messages are tried again")
    yield _topic(metrics_topic(namespace), "READ", "draws the metrics of Spark")


def _apply(namespace: str, service: ServiceDeclaration, _others: Iterable[ServiceDeclaration]) -> Iterator[Right]:
    catalog = catalog_topic(namespace)
    topics = [catalog, events_topic(namespace)]
    topics += [service_topic(namespace, service.name, kind) for kind in SERVICE_TOPICS]
    topics += [retry_topic(namespace, service.name, delay) for delay in sorted(service.retries)]
    for topic in topics:
        yield _topic(topic, "CREATE", "creates the topic")
        # Kafka implies DESCRIBE from READ and from WRITE, but neither from CREATE nor from ALTER_CONFIGS.
        if topic != catalog:
            yield _topic(topic, "DESCRIBE", "sees whether the topic exists")
        yield _topic(topic, "ALTER_CONFIGS", "checks and corrects the settings")
    yield _topic(catalog, "READ", "compares the service with its last release")
    yield _topic(catalog, "WRITE", "adds the service")


_Rights: TypeAlias = Callable[[str, ServiceDeclaration, Iterable[ServiceDeclaration]], Iterator[Right]]
_ROLES: Mapping[str, _Rights] = {
    "worker": _worker,
    "client": _client,
    "reader": _reader,
    "spark": _spark,
    "operator": _operator,
    "console": _console,
    "apply": _apply,
}
ROLES = tuple(_ROLES)


def _catalog(namespace: str) -> Right:
    return _topic(catalog_topic(namespace), "READ", "finds the services")


def _topic(name: str, operation: str, why: str) -> Right:
    return Right("topic", name, "LITERAL", operation, why)
