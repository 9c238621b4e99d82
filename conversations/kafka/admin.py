"""Creates the topics of services and writes them to the catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from conversations.config import Kafka, Periods
from conversations.errors import DeclarationError, KafkaUnreachable, LogError
from conversations.kafka.appending import append
from conversations.kafka.catalog import (
    Catalog,
    no_route_record,
    own_schemas,
    read_catalog,
    route_records,
    schema_record,
    service_record,
)
from conversations.kafka.clients import (
    REQUEST_TIMEOUT,
    Topic,
    describe_topics,
    log,
    make_admin,
    translated,
)
from conversations.kafka.retrying import looked_for
from conversations.kafka.topic_settings import bring, wanted
from conversations.protocol.declarations import ServiceDeclaration
from conversations.protocol.release_changes import changes, check_release
from conversations.protocol.routes import Cluster
from conversations.protocol.topics import (
    RETRY,
    SERVICE_TOPICS,
    TRANSMISSION,
    catalog_topic,
    check_foreign,
    check_name,
    events_topic,
    forwarded_topic,
    metrics_topic,
    operators_topic,
    retry_topic,
    service_topic,
    transmission_topic,
    twins_of,
)

DEFAULT_PARTITIONS = 12
"""Number of partitions of a new service, by default. A service keeps its number. At most this many workers can share its work."""
CONTROL_PARTITIONS = 1
"""Number of partitions of the catalog, the events and the metrics topic. With one partition, the catalog's records have one order."""
APPEAR = 20.0
"""Seconds within which a created topic must be known to the cluster."""


class _Plan(NamedTuple):
    """The partition count and the settings that a topic must have."""

    partitions: int
    settings: dict[str, str]


def apply(
    kafka: Kafka,
    declarations: Sequence[ServiceDeclaration],
    partitions: int | None = None,
    replication: int = -1,
    schemas: Mapping[str, str] | None = None,
    periods: Periods | None = None,
    *,
    replace: bool = False,
) -> list[str]:
    """Create the missing topics of the namespace and of each service, correct the settings of the existing topics, and write the catalog.

    Return a line for each creation and each change, a line for each effect on messages in flight, a line for each retry topic that is
    not used any more, and a line for each missing plain topic of a service. Such topics are neither created nor changed.

    Args:
        kafka: the cluster and the namespace.
        declarations: the services.
        partitions: partition count of each service. With None, an existing service keeps its count, and a new service gets
            ``DEFAULT_PARTITIONS``.
        replication: replication factor of new topics; -1 is the cluster's default.
        schemas: Avro schema texts by fingerprint in hex. They are written before the services that use them. By default these are the
            schemas of envelopes and commands of this package.
        periods: periods of the namespace. Its workers must have the same periods.
        replace: if True, a release that ``check_release`` refuses is applied.

    Raises:
        DeclarationError: a service publishes to or reads from a topic of the namespace, or exists with another partition count, ``check_release`` refuses the release, a name cannot be part of a
            topic's name, or two services would share topics.
        KafkaUnreachable: no broker answered within 10 s.
        LogError: Kafka refused.
    """
    if partitions is not None and partitions < 1:
        raise DeclarationError(f"a service needs at least one partition, not {partitions}")
    for declaration in declarations:
        check_name("service", declaration.name)
        check_foreign(kafka.namespace, declaration.name, declaration.publishes)
        check_foreign(kafka.namespace, declaration.name, declaration.reads, "read from")
    admin = make_admin(kafka)
    periods = periods or Periods()
    control = _namespace_topics(kafka, periods)
    _refuse_shared_topics(kafka, admin, [declaration.name for declaration in declarations])
    has_catalog = describe_topics(admin, kafka, list(control))[catalog_topic(kafka.namespace)] is not None
    catalog = read_catalog(kafka, admin) if has_catalog else Catalog()
    counts = {d.name: partitions or catalog.partitions(d.name) or DEFAULT_PARTITIONS for d in declarations}
    plans = control | _service_topics(kafka, declarations, counts, periods)
    existing = describe_topics(admin, kafka, list(plans))
    _refuse_other_counts(kafka, counts, (catalog, existing))
    if routed := sorted(catalog.routes.keys() & counts.keys()):
        raise DeclarationError(
            f"service {routed[0]!r} lives on cluster {catalog.routes[routed[0]]!r}: remove its route before you apply it here"
        )
    for declaration in () if replace else declarations:
        check_release(catalog.services.get(declaration.name, {}), declaration)
    lines = _made(kafka, admin, plans, existing, replication)
    lines += [line for d in declarations for line in _unused(kafka, d, catalog)]
    lines += [f"{d.name}: {line}" for d in declarations for line in effects(catalog, d)]
    lines += missing_plain_topics(kafka, declarations, admin)
    texts = own_schemas() if schemas is None else schemas
    return lines + _write(kafka, catalog, [(d, counts[d.name]) for d in declarations], texts)


def effects(catalog: Catalog, declaration: ServiceDeclaration) -> list[str]:
    """Return the effects that the declaration of a service has on messages in flight and on state, compared with its entry in the catalog."""
    before = catalog.services.get(declaration.name)
    return [] if before is None else changes(before, declaration.entry(int(before["partitions"])))


def missing_plain_topics(
    kafka: Kafka, declarations: Sequence[ServiceDeclaration], admin: AdminClient | None = None
) -> list[str]:
    """Return a line for each plain topic that does not exist, although a service publishes to it or reads it. Its owner must create it.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: Kafka refused.
    """
    named = sorted(
        {(topic, it.name, "to which the service publishes") for it in declarations for topic in it.publishes}
        | {(topic, it.name, "from which the service reads") for it in declarations for topic in it.reads}
    )
    # With ``rights``, a topic that this client may not describe is not counted as missing.
    found = describe_topics(admin or make_admin(kafka), kafka, sorted({topic for topic, _, _ in named}), rights=True)
    return [
        f"{service}: topic {topic}, {use}, does not exist. Create it before its workers start"
        for topic, service, use in named
        if found[topic] is None
    ]


def create_metrics_topic(kafka: Kafka, replication: int = -1, periods: Periods | None = None) -> str:
    """Create the namespace's metrics topic if it is missing, else correct its settings. Return the topic's name.

    Raises:
        KafkaUnreachable: no broker answered within 10 s.
        LogError: Kafka refused.
    """
    admin, name = make_admin(kafka), metrics_topic(kafka.namespace)
    plan = _Plan(CONTROL_PARTITIONS, wanted("metrics", periods=periods))
    _made(kafka, admin, {name: plan}, describe_topics(admin, kafka, [name]), replication)
    return name


def add_route(
    kafka: Kafka, service: str, cluster: Cluster, replication: int = -1, periods: Periods | None = None
) -> list[str]:
    """Write into the catalog that a service lives on another cluster, and create the topics that this needs.

    Return a line for each creation and each change. Workers that run notice a changed route within about ten seconds.

    Raises:
        DeclarationError: the service lives on this cluster, a name cannot be part of a topic's name, or the transmission topic has another
            partition count.
        KafkaUnreachable: no broker answered within 10 s.
        LogError: Kafka refused, or the namespace has no catalog.
    """
    check_name("service", service)
    check_name("cluster", cluster.name)
    admin, catalog = make_admin(kafka), read_catalog(kafka)
    if service in catalog.services:
        raise DeclarationError(
            f"service {service!r} lives on this cluster: a route would take its messages away from it"
        )
    name = transmission_topic(kafka.namespace, cluster.name)
    plans = {
        name: _Plan(cluster.partitions, wanted(TRANSMISSION, periods=periods)),
        forwarded_topic(kafka.namespace): _Plan(CONTROL_PARTITIONS, wanted("forwarded", periods=periods)),
    }
    existing = describe_topics(admin, kafka, list(plans))
    there = existing[name]
    if there is not None and there.partitions != cluster.partitions:
        raise DeclarationError(f"{name} has {there.partitions} partitions, not {cluster.partitions}: give this number")
    lines = _made(kafka, admin, plans, existing, replication)
    if catalog.route(service) != cluster:
        append(kafka, catalog_topic(kafka.namespace), route_records(service, cluster))
        lines.append(f"service {service} is on cluster {cluster.name} ({cluster.bootstrap})")
    return lines


def remove_route(kafka: Kafka, service: str) -> None:
    """Remove the route of a service from the catalog. The transmission topic stays, because it may have envelopes to carry.

    Raises:
        DeclarationError: the service has no route.
        KafkaUnreachable: no broker answered within 10 s.
        LogError: Kafka refused, or the namespace has no catalog.
    """
    if service not in read_catalog(kafka).routes:
        raise DeclarationError(f"service {service!r} has no route: 'conversations route list' shows all routes")
    append(kafka, catalog_topic(kafka.namespace), [no_route_record(service)])


def _unused(kafka: Kafka, declaration: ServiceDeclaration, catalog: Catalog) -> list[str]:
    """Return a line for each retry topic that no policy of the service uses any more. It can be deleted, because workers never read it."""
    before = catalog.services.get(declaration.name, {}).get("retries", ())
    return [
        f"topic {retry_topic(kafka.namespace, declaration.name, delay)} is not used any more and can be deleted"
        for delay in sorted(set(before) - set(declaration.retries))
    ]


def _namespace_topics(kafka: Kafka, periods: Periods) -> dict[str, _Plan]:
    return {
        catalog_topic(kafka.namespace): _Plan(CONTROL_PARTITIONS, wanted("catalog", periods=periods)),
        events_topic(kafka.namespace): _Plan(CONTROL_PARTITIONS, wanted("events", periods=periods)),
        operators_topic(kafka.namespace): _Plan(CONTROL_PARTITIONS, wanted("operators", periods=periods)),
    }


def _service_topics(
    kafka: Kafka, declarations: Sequence[ServiceDeclaration], counts: Mapping[str, int], periods: Periods
) -> dict[str, _Plan]:
    plans: dict[str, _Plan] = {}
    for declaration in declarations:
        name, count = declaration.name, counts[declaration.name]
        for kind in SERVICE_TOPICS:
            plans[service_topic(kafka.namespace, name, kind)] = _Plan(
                count, wanted(kind, declaration.lifetime, periods)
            )
        for delay in declaration.retries:
            plans[retry_topic(kafka.namespace, name, delay)] = _Plan(count, wanted(RETRY, periods=periods))
    return plans


def _refuse_shared_topics(kafka: Kafka, admin: AdminClient, services: Sequence[str]) -> None:
    """Raise if a service would share its topics and its group with a service of another namespace.

    Names of namespaces and services may contain dots. So service "b" of namespace "conv.a" and service "a.b" of
    namespace "conv" would both have the queue conv.a.b.queue.
    """
    twins: dict[str, set[tuple[str, str]]] = {}
    for service in services:
        for namespace, other in twins_of(kafka.namespace, service):
            twins.setdefault(namespace, set()).add((other, service))
    for namespace, pairs in twins.items():
        try:
            if describe_topics(admin, kafka, [catalog_topic(namespace)])[catalog_topic(namespace)] is None:
                continue
            there = read_catalog(replace(kafka, namespace=namespace), admin).services
        except KafkaUnreachable:
            raise
        except LogError as failure:
            log.warning(
                "namespace %s may have services with topics of the same names; its catalog cannot be read: %s",
                namespace,
                failure,
            )
            continue
        for other, service in sorted(pairs):
            if other in there:
                raise DeclarationError(
                    f"service {service!r} of namespace {kafka.namespace!r} would have the topics of service {other!r} of "
                    f"namespace {namespace!r}: give one of the two services another name"
                )


def _refuse_other_counts(
    kafka: Kafka,
    wanted: Mapping[str, int],
    found: tuple[Catalog, Mapping[str, Topic | None]],
) -> None:
    catalog, existing = found
    for service, partitions in wanted.items():
        counts = {"the catalog": catalog.partitions(service)}
        for kind in SERVICE_TOPICS:
            name = service_topic(kafka.namespace, service, kind)
            topic = existing[name]
            counts[name] = None if topic is None else topic.partitions
        for where, count in counts.items():
            if count is not None and count != partitions:
                raise DeclarationError(
                    f"service {service!r} has {_times(count, 'partition')} ({where}), not {partitions}: the "
                    f"count is fixed when a service is created. Apply it with {count}, or under another name"
                )


def _made(
    kafka: Kafka, admin: AdminClient, plans: Mapping[str, _Plan], existing: Mapping[str, Topic | None], replication: int
) -> list[str]:
    """Create the missing topics, and correct the settings of the others. Return a line for each creation and each change."""
    missing = {name: plan for name, plan in plans.items() if existing[name] is None}
    _create(kafka, admin, missing, replication)
    lines = [f"created topic {name} ({_times(plan.partitions, 'partition')})" for name, plan in missing.items()]
    lines += bring(admin, kafka, {name: plan.settings for name, plan in plans.items() if name not in missing})
    return lines


def _create(kafka: Kafka, admin: AdminClient, missing: Mapping[str, _Plan], replication: int) -> None:
    if not missing:
        return
    new = [
        NewTopic(name, plan.partitions, replication, config={**plan.settings, **_durable(replication)})
        for name, plan in missing.items()
    ]
    for name, future in admin.create_topics(new, request_timeout=REQUEST_TIMEOUT).items():
        try:
            future.result()
        except KafkaException as failure:
            if failure.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:  # another process created it just now
                raise translated(kafka, f"topic {name} cannot be created", failure) from failure
    _await_topics(kafka, admin, list(missing))


def _durable(replication: int) -> dict[str, str]:
    # With three replicas and min.insync.replicas=1, the loss of one broker could lose acknowledged records.
    return {"min.insync.replicas": "2"} if replication >= 3 else {}


def _await_topics(kafka: Kafka, admin: AdminClient, names: list[str]) -> None:
    def missing() -> list[str]:
        return [name for name, topic in describe_topics(admin, kafka, names).items() if topic is None]

    if left := looked_for(missing, lambda names: not names, APPEAR, pause=0.05):
        raise LogError(f"topics were created but do not appear: {', '.join(left)}")


def _write(
    kafka: Kafka,
    catalog: Catalog,
    declarations: Sequence[tuple[ServiceDeclaration, int]],
    schemas: Mapping[str, str],
) -> list[str]:
    records: list[tuple[bytes, bytes]] = []
    lines: list[str] = []
    records += [schema_record(*it) for it in schemas.items() if catalog.schemas.get(it[0]) != it[1]]
    if records:
        lines.append(f"added {_times(len(records), 'schema')} of envelopes and commands to the catalog")
    for declaration, partitions in declarations:
        entry, before = declaration.entry(partitions), catalog.services.get(declaration.name)
        if before != entry:
            records.append(service_record(declaration.name, entry))
            lines.append(f"{'added' if before is None else 'changed'} service {declaration.name} in the catalog")
    append(kafka, catalog_topic(kafka.namespace), records)
    return lines


def _times(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
