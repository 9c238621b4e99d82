"""Asks Kafka for the facts about a cluster and a namespace. It writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

from conversations.config import Kafka, Periods
from conversations.errors import KafkaNotReady, KafkaUnreachable, LogError, UnknownNamespace
from conversations.kafka.catalog import Catalog, read_catalog
from conversations.kafka.cluster import Cluster, FoundTopic, look_at_cluster, look_at_topics, topic_names
from conversations.kafka.log_times import dated_after, open_transactions
from conversations.protocol.declarations import ServiceDeclaration
from conversations.protocol.events import ClockOff
from conversations.protocol.topics import PLAIN, SERVICE_TOPICS, catalog_topic, events_topic, service_topic
from conversations_ops.doctor.facts import Facts, KnownService, Machine, Namespace, Place
from conversations_ops.operate.events import lately

T = TypeVar("T")
Told = Callable[[str], None]
"""Is told what is looked at now."""
_MICROSECOND = timedelta(microseconds=1)


def facts_of(
    kafka: Kafka, periods: Periods, machine: Machine, declarations: Sequence[ServiceDeclaration] = (), told: Told = lambda _: None
) -> Facts:  # fmt: skip
    """Collect what is known about a cluster and a namespace.

    Args:
        kafka: the cluster and the namespace.
        periods: periods of the namespace.
        machine: what is known about this machine.
        declarations: services whose code is here. Their lifetimes are not in the catalog.
        told: is told what is looked at.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: Kafka refused.
    """
    told("the brokers")
    cluster = look_at_cluster(kafka)
    told("the catalog")
    try:
        catalog: Catalog | None = read_catalog(kafka)
    except UnknownNamespace:
        catalog = None
    services = {} if catalog is None else _services(catalog, declarations)
    told("the topics")
    topics, hidden = _topics(kafka, services)
    unseen = [*_not_seen(cluster, topics)]
    told("the times of records")
    times = _Times(kafka, machine, topics)
    namespace = Namespace(
        kafka.namespace, services, catalog is not None, topics, hidden,
        open_since=times.asked(lambda places: open_transactions(kafka, places)),
        ahead=times.asked(lambda places: dated_after(kafka, places, times.latest)),
        clocks_off=times.clocks_off(periods, services),
    )  # fmt: skip
    return Facts(kafka.bootstrap, cluster, namespace, machine, periods, not_seen=(*unseen, *times.failures))


def _services(catalog: Catalog, declarations: Sequence[ServiceDeclaration]) -> dict[str, KnownService]:
    lifetimes = {it.name: it.lifetime for it in declarations}
    return {
        name: KnownService(
            replace(_declaration(name, entry), lifetime=lifetimes.get(name, timedelta(0))), int(entry["partitions"])
        )
        for name, entry in sorted(catalog.services.items())
    }


def _declaration(name: str, entry: Mapping[str, Any]) -> ServiceDeclaration:
    fields = ("accepts", "initiates", "retries", "publishes", "reads")
    return ServiceDeclaration(name, **{field: entry[field] for field in fields if field in entry})


def _topics(kafka: Kafka, services: Mapping[str, KnownService]) -> tuple[dict[str, FoundTopic], frozenset[str]]:
    names = {*topic_names(kafka, f"{kafka.namespace}."), catalog_topic(kafka.namespace), events_topic(kafka.namespace)}
    for name, known in services.items():
        names |= {service_topic(kafka.namespace, name, kind) for kind in SERVICE_TOPICS}
        plain = (*known.declaration.publishes, *known.declaration.reads)
        names |= {it for it in plain if PLAIN.fullmatch(it)}  # the catalog may have anything
    return look_at_topics(kafka, sorted(names))


def _not_seen(cluster: Cluster, topics: Mapping[str, FoundTopic]) -> list[str]:
    unread = [str(it.id) for it in cluster.brokers if it.settings is None]
    found = [f"the settings of broker {', '.join(unread)} cannot be read"] if unread else []
    if cluster.features is None:
        found.append("no broker tells its features")
    unset = sorted(name for name, topic in topics.items() if topic.settings is None)
    if unset:
        more = f" and of {len(unset) - 1} more topics" if len(unset) > 1 else ""
        found.append(f"the settings of {unset[0]}{more} cannot be read")
    return [*found, *(f"{name} cannot be described" for name in sorted(cluster.hidden))]


class _Times:
    """Asks about times in the logs of some topics. What cannot be asked is a failure, which hides no other answer."""

    def __init__(self, kafka: Kafka, machine: Machine, topics: Mapping[str, FoundTopic]) -> None:
        self._kafka = kafka
        self.latest = (machine.now + machine.clock_off // _MICROSECOND) // 1_000
        """Log time, in milliseconds since 1970, up to which this machine's clock may be behind."""
        self._now = machine.now
        self._has_events = events_topic(kafka.namespace) in topics
        self._places = [
            (name, it.number)
            for name, topic in topics.items()
            if name.startswith(f"{kafka.namespace}.") and _is_dated(topic)
            for it in topic.partitions
            if it.leader is not None
        ]
        self.failures: list[str] = []

    def asked(self, ask: Callable[[list[Place]], dict[Place, int]]) -> dict[Place, int]:
        """Return the answer about all partitions that have a leader and that this client may read."""
        return self._answer(lambda: ask(self._places) if self._places else {}) or {}

    def clocks_off(self, periods: Periods, services: Mapping[str, KnownService]) -> dict[str, float]:
        """Return the last difference that a worker of each service has reported within the period ``command_life``."""
        if not self._has_events:
            return {}
        found = self._answer(lambda: lately(self._kafka, ClockOff.NAME, self._now - periods.command_life)) or ()
        return {it.service: float(it.fields["seconds"]) for it in found if it.service in services}

    def _answer(self, ask: Callable[[], T]) -> T | None:
        try:
            return ask()
        except LogError as failure:
            # A partition whose leader changes just now is no reason to say nothing about the others.
            if isinstance(failure, KafkaUnreachable) and not isinstance(failure, KafkaNotReady):
                raise
            self.failures.append(str(failure))
            return None


def _is_dated(topic: FoundTopic) -> bool:
    dated = topic.settings is None or topic.settings.get("message.timestamp.type") == "LogAppendTime"
    return dated and (topic.rights is None or "READ" in topic.rights)
