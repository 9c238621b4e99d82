"""The compacted topic in which a namespace keeps its services and schemas."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, cast

from confluent_kafka.admin import AdminClient

from conversations import schemas
from conversations.config import Kafka
from conversations.errors import LogError, UnknownNamespace
from conversations.kafka.clients import REQUEST_TIMEOUT, Admin, describe_topics, log, make_admin
from conversations.kafka.restore import read_all
from conversations.protocol.limits import NAME
from conversations.protocol.registry import fingerprint
from conversations.protocol.routes import Cluster, cluster_of, route_of, route_record
from conversations.protocol.topics import DELAY, READABLE, catalog_topic, service_topic

SERVICE, SCHEMA, CLUSTER, ROUTE = "service/", "schema/", "cluster/", "route/"
MOST_PARTITIONS = 1_000_000
REREAD_AFTER = 1.0
"""Minimum number of seconds between two readings of the catalog that look for an unknown service."""
ROUTE_KNOWN_FOR = 10.0
"""Seconds for which a route is believed without another look at the catalog."""
FAILED_FOR = 10.0
"""Seconds for which the catalog is not read again after a failed reading. The pause is needed, because each reading delays a worker."""
PATIENCE = 2.0
"""Maximum number of seconds for one request. The first reading of the catalog does not have this limit."""


@dataclass
class Catalog:
    """The catalog: its services and schemas."""

    services: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """Entries by service name, with the fields ``partitions``, ``accepts``, ``initiates``, ``retries``, ``publishes``, ``reads`` and ``accepts_from``."""
    schemas: dict[str, str] = field(default_factory=dict)
    """Avro schemas as JSON, by fingerprint in hex."""
    clusters: dict[str, Cluster] = field(default_factory=dict)
    """The other clusters, by name."""
    routes: dict[str, str] = field(default_factory=dict)
    """The name of the cluster of each service that lives on another cluster."""
    next_offset: int = 0
    """Offset in the topic at which the next reading begins."""

    def route(self, service: str) -> Cluster | None:
        """Return the cluster on which a service lives; None if no route names another cluster for it."""
        return self.clusters.get(self.routes.get(service, ""))

    def destination(self, service: str) -> int | None:
        """Return the partition count of the topic for a service. None: the catalog has no such service and no route for it."""
        cluster = self.route(service)
        return self.partitions(service) if cluster is None else cluster.partitions

    def partitions(self, service: str) -> int | None:
        """Return the partition count of a service's topics, or None if the catalog does not name the service."""
        entry = self.services.get(service)
        return None if entry is None else int(entry["partitions"])

    def take(self, rows: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Apply records of the topic, in order. Records that this version does not understand are ignored."""
        for key, value in rows:
            try:
                self._take(key, value)
            except (ValueError, RecursionError) as error:
                log.warning("record %s of the catalog is not understood and is ignored: %s", key[:200], error)

    def _take(self, key: bytes, value: bytes | None) -> None:
        kind, _, name = key.decode().partition("/")
        if kind == "service":
            if not NAME.fullmatch(name):
                raise ValueError("no service can have such a name")
            _set(self.services, name, None if value is None else _entry(value))
        elif kind == "cluster":
            _set(self.clusters, name, None if value is None else cluster_of(name, value))
        elif kind == "route":
            _set(self.routes, name, None if value is None else route_of(value))
        elif kind == "schema":
            _set(self.schemas, name, None if value is None else value.decode())


def service_record(name: str, entry: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """Make the catalog record of a service."""
    return f"{SERVICE}{name}".encode(), json.dumps(entry, sort_keys=True).encode()


def route_records(service: str, cluster: Cluster) -> list[tuple[bytes, bytes]]:
    """Make the catalog records of a route: the cluster, and the cluster of the service."""
    route = f"{ROUTE}{service}".encode(), route_record(cluster.name)
    return [(f"{CLUSTER}{cluster.name}".encode(), cluster.record()), route]


def no_route_record(service: str) -> tuple[bytes, None]:
    """Make the catalog record that removes a route."""
    return f"{ROUTE}{service}".encode(), None


def schema_record(fingerprint: str, schema: str) -> tuple[bytes, bytes]:
    """Make the catalog record of a schema. The same schema always gives the same bytes."""
    return f"{SCHEMA}{fingerprint}".encode(), schema.encode()


def own_schemas() -> dict[str, str]:
    """Return the schemas of envelopes and commands of this package, as JSON by fingerprint in hex."""
    sources = (schemas.load(name, version) for name in ("envelope", "command") for version in schemas.VERSIONS[name])
    return {fingerprint(source).hex(): json.dumps(source) for source in sources}


def read_catalog(
    kafka: Kafka,
    admin: AdminClient | None = None,
    known: Catalog | None = None,
    patience: float | None = None,
) -> Catalog:
    """Read the catalog to its end. With ``known``, read only the records that ``known`` does not have, and add them to ``known``.

    A request fails after ``patience`` seconds. The reading fails after ``patience`` seconds without progress. Callers set
    ``patience`` if other threads wait for them.

    Raises:
        KafkaUnreachable: no broker answered.
        UnknownNamespace: the namespace has no catalog.
        LogError: the catalog cannot be read.
    """
    admin = admin or make_admin(kafka)
    topic = catalog_topic(kafka.namespace)
    catalog = known or Catalog()
    if (
        known is None
        and describe_topics(admin, kafka, [topic], patience or REQUEST_TIMEOUT, need="READ")[topic] is None
    ):
        raise UnknownNamespace(
            f"namespace {kafka.namespace!r} has no catalog: run 'conversations apply' for its services, or give another --namespace"
        )
    rows, catalog.next_offset = read_all(kafka, topic, catalog.next_offset, patience)
    catalog.take(rows)
    return catalog


def with_topics(kafka: Kafka, services: Iterable[str]) -> list[str]:
    """Return the services that can be read: their topics of ``READABLE`` exist.

    Log a warning for each service with a missing topic.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: the right to describe a topic is missing.
    """
    topics = {name: [service_topic(kafka.namespace, name, kind) for kind in READABLE] for name in services}
    found = describe_topics(make_admin(kafka), kafka, [topic for those in topics.values() for topic in those])
    missing = {
        name: gone for name, those in topics.items() if (gone := [topic for topic in those if found[topic] is None])
    }
    for name, gone in missing.items():
        log.warning(
            "service %s is in the catalog and left out, because topics are missing: %s; 'conversations apply' creates them",
            name, ", ".join(gone),
        )  # fmt: skip
    return [name for name in topics if name not in missing]


class CatalogReader:
    """The catalog of a worker. It is read again when an unknown service is asked for, but at most once a second.

    It is also read again when a service on another cluster is asked for, and the last reading is ``ROUTE_KNOWN_FOR`` seconds ago, because a route
    may change. A service of this cluster stays.

    The caller holds the lock of its worker during a reading. So after the first reading, each request has the short time limit
    ``PATIENCE``. After a failed reading, the next reading begins only after ``FAILED_FOR`` seconds.
    """

    def __init__(self, kafka: Kafka, admin: Admin) -> None:
        self._kafka, self._admin = kafka, admin
        self._catalog: Catalog | None = None
        self._read_at = 0.0
        self._failure: LogError | None = None
        self._failed_at = 0.0

    def partitions(self, service: str) -> int | None:
        """Return the partition count of the topic for a service: its queue, or the transmission topic to its cluster.

        The result is None if the catalog names neither the service nor a route for it (yet). Only the first reading raises. If a later
        reading fails, the result comes from the last successful reading.

        Raises:
            KafkaUnreachable: no broker answered the first reading.
            LogError: the namespace has no catalog, or the catalog cannot be read.
        """
        catalog = self._catalog
        count = catalog.destination(service) if catalog else None
        if catalog and count is not None and catalog.route(service) is None:
            return count
        known_for = REREAD_AFTER if count is None else ROUTE_KNOWN_FOR
        if catalog and (monotonic() - self._read_at < known_for or self._failed_lately()):
            return count
        try:
            catalog = self.read()
        except LogError as failure:
            if catalog is None:
                raise
            log.info("the catalog could not be read again, so what is known of %s stays: %s", service, failure)
        return catalog.destination(service)

    def cluster(self, service: str) -> str:
        """Return the name of the cluster on which a service lives, by the last reading; empty for this cluster."""
        found = None if self._catalog is None else self._catalog.route(service)
        return "" if found is None else found.name

    def known(self, service: str) -> int | None:
        """Return what ``partitions`` does, by the last reading; None if the catalog had no such service and no route then."""
        return None if self._catalog is None else self._catalog.destination(service)

    def entry(self, service: str) -> Mapping[str, Any]:
        """Return the entry of a service by the last reading; empty if the catalog did not name the service then."""
        return {} if self._catalog is None else self._catalog.services.get(service, {})

    @property
    def schemas(self) -> Mapping[str, str]:
        """The Avro schemas by the last reading, by their fingerprints."""
        return {} if self._catalog is None else self._catalog.schemas

    def read(self) -> Catalog:
        """Read the records after the last reading, and return the catalog. If there are no new records, this costs one request.

        For ``FAILED_FOR`` seconds after a failed reading, this method raises the same exception again and asks no broker. But
        before the first successful reading, every call asks a broker.

        Raises:
            KafkaUnreachable: no broker answered.
            LogError: the namespace has no catalog, or the catalog cannot be read.
        """
        known = self._catalog
        if (failure := self._failed_lately()) is not None:
            raise failure.with_traceback(None)
        try:
            with self._admin.request() as client:
                self._catalog = read_catalog(self._kafka, client, known, None if known is None else PATIENCE)
        except LogError as failure:
            self._failure, self._failed_at = failure, monotonic()
            raise
        self._read_at, self._failure = monotonic(), None
        return self._catalog

    def _failed_lately(self) -> LogError | None:
        """Return the failure of a reading within the last ``FAILED_FOR`` seconds, else None.

        Also return None before the first successful reading. The first reading is part of a join, and a join delays no other
        thread. So a failed first reading may be repeated at once.
        """
        is_past = self._catalog is None or monotonic() - self._failed_at >= FAILED_FOR
        return None if is_past else self._failure


def _entry(value: bytes) -> Mapping[str, Any]:
    entry = json.loads(value)
    count = entry.get("partitions") if isinstance(entry, dict) else None
    if type(count) is not int or not 0 < count <= MOST_PARTITIONS:
        raise ValueError(f"a service has from 1 to {MOST_PARTITIONS} partitions, not {count!r:.80}")
    fitting = {name: fits for name, fits in _FIELDS.items() if name in entry}
    wrong = [name for name, fits in fitting.items() if not fits(entry[name])]
    if wrong:
        log.warning("an entry of the catalog has fields that are not understood and are ignored: %s", wrong)
    return {name: value for name, value in cast("dict[str, Any]", entry).items() if name not in wrong}


def _is_contracts(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(sides, dict) and all(map(_is_names, sides.values())) for sides in value.values()
    )


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_delays(value: Any) -> bool:
    return _is_names(value) and all(DELAY.fullmatch(delay) for delay in value)


def _is_bodies(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(body, dict) and type(body.get("version")) is int for body in value.values()
    )


def _is_number(value: Any) -> bool:
    return type(value) is int


_FIELDS = {
    "accepts": _is_contracts,
    "initiates": _is_contracts,
    "retries": _is_delays,
    "bodies": _is_bodies,
    "state_version": _is_number,
    "publishes": _is_names,
    "accepts_from": _is_names,
    "reads": _is_names,
}
"""The optional fields of an entry that this version reads, each with the function that checks its value."""


def _set(where: dict[str, Any], name: str, value: object) -> None:
    if value is None:
        where.pop(name, None)
    else:
        where[name] = value
