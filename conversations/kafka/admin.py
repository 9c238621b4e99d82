"""Creates the topics of services and writes them to the catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import monotonic, sleep

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from conversations.config import Kafka
from conversations.errors import DeclarationError, LogError
from conversations.kafka.appending import append
from conversations.kafka.catalog import Catalog, read_catalog, schema_record, service_record
from conversations.kafka.clients import (
    REQUEST_TIMEOUT,
    Topic,
    describe_topics,
    make_admin,
    translated,
)
from conversations.periods import Periods, milliseconds
from conversations.protocol.declarations import ServiceDeclaration
from conversations.protocol.topics import (
    COMMANDS,
    DEAD_LETTER,
    QUEUE,
    RETRY,
    SERVICE_TOPICS,
    STATE,
    catalog_topic,
    check_name,
    events_topic,
    metrics_topic,
    retry_topic,
    service_topic,
)

DEFAULT_PARTITIONS = 12
"""Partitions of a new service: fixed for its life, and the most workers that can share it."""
CONTROL_PARTITIONS = 1
"""Partitions of the catalog (which must have one, to have one order), of the events and the metrics."""
_INBOX = {"cleanup.policy": "delete", "message.timestamp.type": "LogAppendTime"}
# Delete by time only, longer than any lifetime plus grace; the broker's clock dates the records, so that a dialog's
# last moment does not depend on anybody's wrong clock.
_ORIGINALS = {"max.message.bytes": 2 * 1024 * 1024}
# These hold other people's records with something around them: they must take what the queue took.
SETTINGS: Mapping[str, Mapping[str, object]] = {
    QUEUE: _INBOX,
    COMMANDS: _INBOX,
    DEAD_LETTER: {"cleanup.policy": "delete", **_ORIGINALS},
    STATE: {
        "cleanup.policy": "compact",
        "segment.bytes": 64 * 1024 * 1024,
        "min.cleanable.dirty.ratio": 0.2,
        **_ORIGINALS,
    },
    RETRY: {"cleanup.policy": "delete", **_ORIGINALS},
    "catalog": {"cleanup.policy": "compact"},
    "events": {"cleanup.policy": "delete"},
    # A minute that is computed again takes the place of what it was; each is a key of its own, so that they must go too.
    "metrics": {"cleanup.policy": "compact,delete"},
}
TIMES: Mapping[str, Mapping[str, str]] = {
    QUEUE: {"retention.ms": "inbox_kept"},
    COMMANDS: {"retention.ms": "inbox_kept"},
    DEAD_LETTER: {"retention.ms": "letter_life"},
    STATE: {"segment.ms": "state_segment", "delete.retention.ms": "deletes_kept"},
    RETRY: {"retention.ms": "retries_kept"},
    "catalog": {},
    "events": {"retention.ms": "events_kept"},
    "metrics": {"retention.ms": "metrics_kept"},
}
"""Which period each setting that is one has."""
APPEAR = 20.0
"""Seconds a created topic may take to be known to the cluster."""


def apply(
    kafka: Kafka,
    declarations: Sequence[ServiceDeclaration],
    partitions: int | None = None,
    replication: int = -1,
    schemas: Mapping[str, str] | None = None,
    periods: Periods | None = None,
) -> list[str]:
    """Create what is missing of the namespace and of each service's topics, and write the catalog.

    Returns a line for each thing that was created or changed; none when everything was there. Without ``partitions``
    a service keeps its count, a new one gets ``DEFAULT_PARTITIONS``; ``replication`` -1 is the cluster's default.
    ``schemas`` are Avro schema texts by fingerprint in hex, written before the services that use them; ``periods``
    those of the namespace's workers.

    Raises:
        DeclarationError: a service exists with another partition count, or a name cannot be a topic's.
        KafkaUnreachable: no broker answered within 10 s.
        LogError: Kafka refused.
    """
    if partitions is not None and partitions < 1:
        raise DeclarationError(f"a service needs at least one partition, not {partitions}")
    for declaration in declarations:
        check_name("service", declaration.name)
    admin = make_admin(kafka)
    control = _namespace_topics(kafka)
    has_catalog = describe_topics(admin, kafka, list(control))[catalog_topic(kafka.namespace)] is not None
    catalog = read_catalog(kafka, admin) if has_catalog else Catalog()
    counts = {d.name: partitions or catalog.partitions(d.name) or DEFAULT_PARTITIONS for d in declarations}
    wanted = control | {
        service_topic(kafka.namespace, name, kind): (kind, count)
        for name, count in counts.items()
        for kind in SERVICE_TOPICS
    }
    for declaration in declarations:
        for delay in declaration.retries:
            wanted[retry_topic(kafka.namespace, declaration.name, delay)] = RETRY, counts[declaration.name]
    existing = describe_topics(admin, kafka, list(wanted))
    _refuse_other_counts(kafka, counts, (catalog, existing))
    missing = {name: wanted[name] for name, topic in existing.items() if topic is None}
    _create(kafka, admin, missing, replication, periods)
    lines = [f"created topic {name} ({_times(count, 'partition')})" for name, (_, count) in missing.items()]
    lines += [line for d in declarations for line in _unused(kafka, d, catalog)]
    return lines + _write(kafka, catalog, [(d, counts[d.name]) for d in declarations], schemas or {})


def create_metrics_topic(kafka: Kafka, replication: int = -1, periods: Periods | None = None) -> str:
    """Create the namespace's topic of metrics when it is missing, and return its name.

    Raises:
        KafkaUnreachable: no broker answered within 10 s.
        LogError: Kafka refused.
    """
    admin, name = make_admin(kafka), metrics_topic(kafka.namespace)
    if describe_topics(admin, kafka, [name])[name] is None:
        _create(kafka, admin, {name: ("metrics", CONTROL_PARTITIONS)}, replication, periods)
    return name


def _unused(kafka: Kafka, declaration: ServiceDeclaration, catalog: Catalog) -> list[str]:
    """Name the retry topics that no policy waits by any more; they are only read by whoever looks at them."""
    before = catalog.services.get(declaration.name, {}).get("retries", ())
    return [
        f"topic {retry_topic(kafka.namespace, declaration.name, delay)} is not used any more and can be deleted"
        for delay in sorted(set(before) - set(declaration.retries))
    ]


def _namespace_topics(kafka: Kafka) -> dict[str, tuple[str, int]]:
    return {
        catalog_topic(kafka.namespace): ("catalog", CONTROL_PARTITIONS),
        events_topic(kafka.namespace): ("events", CONTROL_PARTITIONS),
    }


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


def _create(
    kafka: Kafka,
    admin: AdminClient,
    missing: Mapping[str, tuple[str, int]],
    replication: int,
    periods: Periods | None,
) -> None:
    if not missing:
        return
    new = [
        NewTopic(name, count, replication, config=_settings(kind, replication, periods or Periods()))
        for name, (kind, count) in missing.items()
    ]
    for name, future in admin.create_topics(new, request_timeout=REQUEST_TIMEOUT).items():
        try:
            future.result()
        except KafkaException as failure:
            if failure.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:  # somebody applies the same right now
                raise translated(kafka, f"topic {name} cannot be created", failure) from failure
    _await_topics(kafka, admin, list(missing))


def settings(kind: str, periods: Periods) -> dict[str, str]:
    """Return what a kind of topic is created with, as Kafka writes it."""
    times = {name: milliseconds(getattr(periods, period)) for name, period in TIMES[kind].items()}
    return {name: str(value) for name, value in {**SETTINGS[kind], **times}.items()}


def _settings(kind: str, replication: int, periods: Periods) -> dict[str, str]:
    # Three copies and no demand for two of them would lose acknowledged records with one broker.
    durable = {"min.insync.replicas": "2"} if replication >= 3 else {}
    return settings(kind, periods) | durable


def _await_topics(kafka: Kafka, admin: AdminClient, names: list[str]) -> None:
    deadline = monotonic() + APPEAR
    while missing := [name for name, topic in describe_topics(admin, kafka, names).items() if topic is None]:
        if monotonic() > deadline:
            raise LogError(f"topics were created but do not appear: {', '.join(missing)}")
        sleep(0.05)


def _write(
    kafka: Kafka,
    catalog: Catalog,
    declarations: Sequence[tuple[ServiceDeclaration, int]],
    schemas: Mapping[str, str],
) -> list[str]:
    records: list[tuple[bytes, bytes]] = []
    lines: list[str] = []
    for fingerprint, schema in schemas.items():
        if catalog.schemas.get(fingerprint) != schema:
            records.append(schema_record(fingerprint, schema))
            lines.append(f"added schema {fingerprint} to the catalog")
    for declaration, partitions in declarations:
        entry, before = declaration.entry(partitions), catalog.services.get(declaration.name)
        if before != entry:
            records.append(service_record(declaration.name, entry))
            lines.append(f"{'added' if before is None else 'changed'} service {declaration.name} in the catalog")
    append(kafka, catalog_topic(kafka.namespace), records)
    return lines


def _times(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
