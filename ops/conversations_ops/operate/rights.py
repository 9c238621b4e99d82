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
    DECISIONS,
    QUEUE,
    SERVICE_TOPICS,
    STATE,
    catalog_topic,
    events_topic,
    feed_group,
    forwarded_topic,
    forwarders_group,
    metrics_topic,
    operators_topic,
    retry_topic,
    service_topic,
    transmission_topic,
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
    (COMMANDS, "READ"): "takes commands of clients",
    (COMMANDS, "WRITE"): "forwards commands",
    (DECISIONS, "READ"): "takes decisions of operators",
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
    # Spark is in no consumer group that Kafka knows, and reads neither commands nor decisions.
    yield _topic(service_topic(namespace, service.name, STATE), "READ", "reads the state of dialogs")
    yield _topic(service_topic(namespace, service.name, DEAD_LETTER), "READ", "reads dead letters")
    yield _topic(events_topic(namespace), "READ", "compares the messages with the events")


def _operator(namespace: str, service: ServiceDeclaration, _others: Iterable[ServiceDeclaration]) -> Iterator[Right]:
    name = service.name
    yield _catalog(namespace)
    yield _topic(service_topic(namespace, name, QUEUE), "READ", "counts the messages that are not read yet")
    yield _topic(service_topic(namespace, name, COMMANDS), "READ", "counts the commands that are not read yet")
    yield _topic(service_topic(namespace, name, DECISIONS), "WRITE", "writes decisions")
    yield _topic(service_topic(namespace, name, STATE), "READ", "shows dialogs, queues and retries")
    yield _topic(service_topic(namespace, name, DEAD_LETTER), "READ", "shows dead letters")
    yield Right("group", f"{namespace}.{name}", "LITERAL", "DESCRIBE", "sees which partitions have a worker")
    yield _topic(events_topic(namespace), "READ", "waits for the answers of the workers")
    yield _topic(events_topic(namespace), "WRITE", "records who decided what, and why")
    yield _topic(operators_topic(namespace), "READ", "shows redrives, and notes on groups")
    yield _topic(metrics_topic(namespace), "READ", "keeps the metrics of Spark in the read model")
    yield _topic(operators_topic(namespace), "WRITE", "carries out redrives, and notes groups")


def _console(namespace: str, service: ServiceDeclaration, others: Iterable[ServiceDeclaration]) -> Iterator[Right]:
    yield from _reader(namespace, service, others)
    yield from _operator(namespace, service, others)
    for delay in sorted(service.retries):
        yield _topic(retry_topic(namespace, service.name, delay), "READ", "shows when messages are tried again")


def _apply(namespace: str, service: ServiceDeclaration, _others: Iterable[ServiceDeclaration]) -> Iterator[Right]:
    catalog = catalog_topic(namespace)
    topics = [catalog, events_topic(namespace), operators_topic(namespace)]
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


def _forwarder(namespace: str, _service: ServiceDeclaration, _others: Iterable[ServiceDeclaration]) -> Iterator[Right]:
    yield _topic(events_topic(namespace), "WRITE", "reports events")
    yield _catalog(namespace)


def _forwarder_there(
    namespace: str, service: ServiceDeclaration, _others: Iterable[ServiceDeclaration]
) -> Iterator[Right]:
    yield _catalog(namespace)
    yield _topic(service_topic(namespace, service.name, QUEUE), "WRITE", f"carries messages to {service.name}")
    forwarded = forwarded_topic(namespace)
    yield _topic(forwarded, "READ", "begins behind the last message that is carried")
    yield _topic(forwarded, "WRITE", "keeps its position")
    yield Right(
        "transactional-id",
        f"{forwarded}.",
        "PREFIXED",
        "WRITE",
        "carries messages and keeps the position in one transaction",
    )


def rights_to(role: str, namespace: str, clusters: Iterable[str]) -> list[Right]:
    """Return the further rights of a role, on the topics and groups of the ways to other clusters.

    Args:
        role: one of ``ROLES``.
        namespace: the namespace of the services of this cluster.
        clusters: names of the other clusters, as ``route add`` names them.
    """
    return [right for cluster in clusters for right in _to_cluster(role, namespace, cluster)]


def _to_cluster(role: str, namespace: str, cluster: str) -> Iterator[Right]:
    topic, group = transmission_topic(namespace, cluster), forwarders_group(namespace, cluster)
    if role == "worker":
        yield _topic(topic, "WRITE", f"sends to services on cluster {cluster}")
    elif role == "forwarder":
        yield _topic(topic, "READ", f"carries messages to cluster {cluster}")
        yield Right("group", group, "LITERAL", "READ", "shares the partitions with other forwarders")
    elif role in ("operator", "console"):
        yield Right("group", group, "LITERAL", "DESCRIBE", f"sees whether a forwarder to cluster {cluster} runs")
        yield _topic(topic, "READ", f"counts what is not carried to cluster {cluster}")
        yield _topic(
            forwarded_topic(namespace), "READ", f"shows operators of cluster {cluster} how far its forwarders are"
        )
    elif role == "apply":
        for name in (topic, forwarded_topic(namespace)):
            yield _topic(name, "CREATE", "route add creates the topic")
            yield _topic(name, "DESCRIBE", "sees whether the topic exists")
            yield _topic(name, "ALTER_CONFIGS", "checks and corrects the settings")


_Rights: TypeAlias = Callable[[str, ServiceDeclaration, Iterable[ServiceDeclaration]], Iterator[Right]]
_ROLES: Mapping[str, _Rights] = {
    "worker": _worker,
    "client": _client,
    "reader": _reader,
    "spark": _spark,
    "operator": _operator,
    "console": _console,
    "apply": _apply,
    "forwarder": _forwarder,
    "forwarder-there": _forwarder_there,
}
ROLES = tuple(_ROLES)


def _catalog(namespace: str) -> Right:
    return _topic(catalog_topic(namespace), "READ", "finds the services")


def _topic(name: str, operation: str, why: str) -> Right:
    return Right("topic", name, "LITERAL", operation, why)
