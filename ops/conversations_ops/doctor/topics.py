"""Checks of the topics of a namespace and of the plain topics of its services."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

from conversations.config import Periods
from conversations.kafka.cluster import FoundTopic
from conversations.kafka.topic_settings import Deviation, deviations, needed, tuning, wanted
from conversations.protocol.topics import (
    DEAD_LETTER,
    INPUTS,
    RETRY,
    SERVICE_TOPICS,
    catalog_topic,
    events_topic,
    metrics_topic,
    operators_topic,
    retry_topic,
    service_topic,
)
from conversations_ops.doctor import replicas
from conversations_ops.doctor.facts import Facts, KnownService, Place
from conversations_ops.doctor.findings import Check, Hit, Severity

CONTROL = 1
"""Partition count of the topics of a namespace."""
APPLY = "conversations apply {targets} --bootstrap {bootstrap} --namespace {namespace}"
SET = "kafka-configs.sh --bootstrap-server {bootstrap} --alter --entity-type topics --entity-name {place} --add-config {setting}={value}"
REASSIGN = "kafka-reassign-partitions.sh --bootstrap-server {bootstrap} --reassignment-json-file FILE --execute, with three replicas for each partition of {place}"
HANGING = (
    "kafka-transactions.sh --bootstrap-server {bootstrap} find-hanging --topic {topic} --partition {partition}; then describe it: if its coordinator "
    "has noted a commit, an abort loses its records in this partition. Else: "
    "kafka-transactions.sh --bootstrap-server {bootstrap} abort --topic {topic} --partition {partition} --start-offset OFFSET"
)


def expected(facts: Facts) -> dict[str, tuple[str, KnownService | None]]:
    """Return the topics that the namespace must have, each with its kind and its service. Workers need neither the metrics topic nor the operators topic."""
    name = facts.namespace.name
    if not facts.namespace.has_catalog:
        return {}
    found: dict[str, tuple[str, KnownService | None]] = {
        catalog_topic(name): ("catalog", None),
        events_topic(name): ("events", None),
    }
    for service, known in facts.namespace.services.items():
        found.update({service_topic(name, service, kind): (kind, known) for kind in SERVICE_TOPICS})
        found.update({retry_topic(name, service, delay): (RETRY, known) for delay in known.declaration.retries})
    return found


def _optional(name: str) -> dict[str, tuple[str, KnownService | None]]:
    return {metrics_topic(name): ("metrics", None), operators_topic(name): ("operators", None)}


def _kinds(facts: Facts) -> Iterator[tuple[FoundTopic, str, KnownService | None]]:
    """Yield the topics of the namespace that exist, with their kinds and services."""
    places = {**expected(facts), **_optional(facts.namespace.name)}
    for name, (kind, service) in places.items():
        if (topic := facts.namespace.topics.get(name)) is not None:
            yield topic, kind, service


# -- existence and partitions ------------------------------------------------------------------------------------------


def _missing(facts: Facts) -> Iterator[Hit]:
    for name, (kind, _) in expected(facts).items():
        if kind != RETRY and name not in facts.namespace.topics and name not in facts.namespace.hidden:
            yield Hit(name, "the topic does not exist", "the topic")


def _missing_operators(facts: Facts) -> Iterator[Hit]:
    name = operators_topic(facts.namespace.name)
    if facts.namespace.has_catalog and name not in facts.namespace.topics and name not in facts.namespace.hidden:
        yield Hit(name, "the topic does not exist", "the topic")


def _missing_plain(facts: Facts) -> Iterator[Hit]:
    for service, known in facts.namespace.services.items():
        for topic in sorted({*known.declaration.publishes, *known.declaration.reads}):
            if topic not in facts.namespace.topics and topic not in facts.namespace.hidden:
                yield Hit(topic, f"the topic does not exist, and service {service} uses it", "the topic")


def _counts(facts: Facts) -> Iterator[Hit]:
    for topic, kind, service in _kinds(facts):
        count = CONTROL if service is None else service.partitions
        if kind not in {RETRY, "metrics"} and len(topic.partitions) != count:
            yield Hit(topic.name, f"{len(topic.partitions)} partitions", f"{count}, as the catalog says")


def _unused_retries(facts: Facts) -> Iterator[Hit]:
    used = expected(facts)
    for service in facts.namespace.services:
        beginning = retry_topic(facts.namespace.name, service, "")
        for name in sorted(facts.namespace.topics):
            if name.startswith(beginning) and name not in used:
                yield Hit(name, f"no policy of service {service} uses it", "the topic can be deleted")


def _strangers(facts: Facts) -> Iterator[Hit]:
    name = facts.namespace.name
    if not facts.namespace.has_catalog:
        return
    known = {*expected(facts), *_optional(name)}
    known |= {it for service in facts.namespace.services.values() for it in service.declaration.publishes}
    known |= {it for service in facts.namespace.services.values() for it in service.declaration.reads}
    retries = tuple(retry_topic(name, service, "") for service in facts.namespace.services)
    for topic in sorted(facts.namespace.topics):
        if topic not in known and not topic.startswith(retries or (" ",)):
            yield Hit(
                topic,
                f"the catalog of namespace {name} names no service with this topic",
                "a service of that name, or no topic",
            )


# -- settings ----------------------------------------------------------------------------------------------------------


def _serious(topic: FoundTopic, kind: str, lifetime: timedelta, periods: Periods) -> list[Deviation]:
    """Return the settings with which a worker refuses to work, or with which records can be lost. No dialog depends on the other topics."""
    if kind in {RETRY, "events", "metrics"}:
        return []
    least = needed(kind, lifetime, periods)
    asked = wanted(kind, lifetime, periods)
    least["unclean.leader.election.enable"] = asked["unclean.leader.election.enable"]
    if kind in {*INPUTS, DEAD_LETTER}:
        least["retention.bytes"] = asked["retention.bytes"]
    return deviations(topic.name, topic.settings or {}, least)


def _deviating(*settings: str) -> Callable[[Facts], Iterator[Hit]]:
    """Return a look at some settings whose value is unsafe."""

    def look(facts: Facts) -> Iterator[Hit]:
        for topic, kind, service in _configured(facts):
            for it in _serious(topic, kind, _lifetime(service), facts.periods):
                if it.setting in settings:
                    yield _hit(it)

    return look


def _unwise(facts: Facts) -> Iterator[Hit]:
    """Yield the settings that differ from those of ``conversations apply`` and are safe."""
    for topic, kind, service in _configured(facts):
        lifetime = _lifetime(service)
        named = {it.setting for it in _serious(topic, kind, lifetime, facts.periods)}
        for it in deviations(topic.name, topic.settings or {}, wanted(kind, lifetime, facts.periods)):
            if it.setting not in named and not tuning(it.setting):
                yield _hit(it)


def _configured(facts: Facts) -> Iterator[tuple[FoundTopic, str, KnownService | None]]:
    return (it for it in _kinds(facts) if it[0].settings is not None)


def _lifetime(service: KnownService | None) -> timedelta:
    return timedelta(0) if service is None else service.declaration.lifetime


def _hit(it: Deviation) -> Hit:
    return Hit(it.topic, f"{it.setting}={it.value}", it.asked, {"setting": it.setting, "value": it.needed})


# -- replicas ----------------------------------------------------------------------------------------------------------


def _replicas(is_wrong: Callable[[FoundTopic, Facts], bool], needed: str) -> Callable[[Facts], Iterator[Hit]]:
    def look(facts: Facts) -> Iterator[Hit]:
        for topic, _, _ in _kinds(facts):
            if is_wrong(topic, facts):
                count = topic.replication
                found = f"{count} replica{'' if count == 1 else 's'}, min.insync.replicas {replicas.min_insync(topic)}"
                value = "2" if count >= replicas.ENOUGH else "1"
                yield Hit(topic.name, found, needed, {"setting": "min.insync.replicas", "value": value})

    return look


def _no_leader(facts: Facts) -> Iterator[Hit]:
    for topic, _, _ in _kinds(facts):
        if numbers := [str(it.number) for it in topic.partitions if it.leader is None]:
            yield Hit(topic.name, f"no leader: partition {', '.join(numbers)}", "a leader for each partition")


def _behind(facts: Facts) -> Iterator[Hit]:
    for topic, _, _ in _kinds(facts):
        if numbers := [str(it.number) for it in topic.partitions if len(it.in_sync) < len(it.replicas)]:
            yield Hit(topic.name, f"replicas are not in sync: partition {', '.join(numbers)}", "all replicas in sync")


def _refusing(facts: Facts) -> Iterator[Hit]:
    for topic, _, _ in _kinds(facts):
        least = replicas.min_insync(topic) or 1
        numbers = [str(it.number) for it in topic.partitions if len(it.in_sync) < least <= len(it.replicas)]
        if numbers:
            yield Hit(topic.name, f"too few replicas are in sync: partition {', '.join(numbers)}", f"{least} in sync")


# -- transactions ------------------------------------------------------------------------------------------------------


def _hanging(facts: Facts) -> Iterator[Hit]:
    bounds = [
        int(value)
        for broker in facts.cluster.brokers
        if (value := (broker.settings or {}).get("transaction.max.timeout.ms", "")).isdigit()
    ]
    longest = max(bounds, default=LONGEST) * 1_000
    for (topic, partition), since in sorted(facts.namespace.open_since.items()):
        age = facts.machine.now - since
        if age > longest + facts.machine.clock_off.total_seconds() * 1_000_000:
            found = f"a transaction is open for {age // 1_000_000} s"
            bound = f"at most {longest // 1_000_000} s, the longest time-out that brokers allow"
            yield Hit(place((topic, partition)), found, bound, {"topic": topic, "partition": str(partition)})


LONGEST = 900_000
"""Kafka's default of ``transaction.max.timeout.ms``, for brokers whose settings are not known."""


def place(it: Place) -> str:
    """Return a partition as text."""
    return f"{it[0]}, partition {it[1]}"


CHECKS = (
    Check(
        "topic-missing", Severity.FATAL, "The workers of the service do not start without it. If it was deleted, its records are lost.",
        APPLY, _missing,
    ),
    Check(
        "partition-count", Severity.FATAL, "Keys no longer find their partition, so dialogs lose their state and their order. Workers refuse it.",
        "make {place} anew with the old count, from a copy; the count of a topic cannot be made smaller", _counts,
    ),
    Check(
        "cleanup-policy", Severity.FATAL, "A compacted queue loses messages of the same key, and a state topic that deletes by age loses dialogs.",
        APPLY, _deviating("cleanup.policy"),
    ),
    Check(
        "timestamp-type", Severity.FATAL, "Workers decide by log time. With CreateTime, a wrong clock of a writer ends dialogs, or its records are refused.",
        APPLY, _deviating("message.timestamp.type"),
    ),
    Check(
        "queue-retention", Severity.FATAL, "Kafka deletes messages and commands that a dialog may still need, whether they were read or not.",
        APPLY, _deviating("retention.ms"),
    ),
    Check(
        "retention-bytes", Severity.FATAL, "Kafka deletes records as soon as there are more bytes, whether they were read or not.",
        APPLY, _deviating("retention.bytes"),
    ),
    Check(
        "deletes-retention", Severity.FATAL,
        "Kafka drops the marks of deleted rows while a local copy that was offline may still lack them. Closed dialogs then come back.",
        APPLY, _deviating("delete.retention.ms"),
    ),
    Check(
        "record-size", Severity.FATAL, "The topic refuses rows or letters of records that the queue accepts, so the partition cannot go on.",
        APPLY, _deviating("max.message.bytes"),
    ),
    Check(
        "topic-unclean-leader-election", Severity.FATAL, "A broker that lacks acknowledged records may become the leader. The records are then lost.",
        APPLY, _deviating("unclean.leader.election.enable"),
    ),
    Check(
        "one-replica", Severity.FATAL, "The loss of one broker loses the dialogs whose partition is there.",
        REASSIGN, _replicas(lambda topic, facts: replicas.has_one_replica(topic, facts.cluster), "3 replicas, or as many as brokers"),
    ),
    Check(
        "min-insync-replicas", Severity.FATAL,
        "A leader may acknowledge records that no other replica has. If its broker is lost, so are they, and a committed step is torn apart.",
        SET, _replicas(lambda topic, _: replicas.acknowledges_alone(topic), "min.insync.replicas 2"),
    ),
    Check(
        "min-insync-too-large", Severity.FATAL, "More replicas must be in sync than there are. Kafka refuses every record.",
        SET, _replicas(lambda topic, _: replicas.takes_nothing(topic), "min.insync.replicas at most the number of replicas"),
    ),
    Check("no-leader", Severity.FATAL, "Nobody can read or write these partitions.", "start the brokers that are down", _no_leader),
    Check(
        "too-few-in-sync", Severity.FATAL, "Kafka refuses every record of these partitions.",
        "start the brokers that are down, or wait until their replicas are in sync", _refusing,
    ),
    Check(
        "hanging-transaction", Severity.FATAL, "Kafka will not end it, and no reader gets past it. The partition stands still.",
        HANGING, _hanging,
    ),
    Check(
        "few-replicas", Severity.WARNING, "One more broker may be lost with three replicas.",
        REASSIGN, _replicas(lambda topic, facts: replicas.has_few_replicas(topic, facts.cluster), "3 replicas"),
    ),
    Check(
        "no-spare-replica", Severity.WARNING, "As soon as one broker stops, Kafka refuses every record.",
        REASSIGN, _replicas(lambda topic, _: replicas.stops_with_one(topic), "more replicas than min.insync.replicas"),
    ),
    Check(
        "under-replicated", Severity.WARNING, "Fewer brokers than planned may be lost.",
        "start the brokers that are down, or wait until their replicas are in sync", _behind,
    ),
    Check(
        "topic-setting", Severity.WARNING, "The setting differs from that of `conversations apply`, so the topic keeps less, takes less, or takes too much.",
        APPLY, _unwise,
    ),
    Check(
        "operators-topic-missing", Severity.WARNING, "Redrives cannot be planned, and groups cannot be noted. A release without this topic has applied the namespace.",
        APPLY, _missing_operators,
    ),
    Check(
        "plain-topic-missing", Severity.WARNING, "Messages wait for it, or a feed does not begin. Its owner must make it.",
        "kafka-topics.sh --bootstrap-server {bootstrap} --create --topic {place}", _missing_plain,
    ),
    Check(
        "retry-topic-unused", Severity.NOTE, "Workers never read retry topics, so nothing waits there.",
        "kafka-topics.sh --bootstrap-server {bootstrap} --delete --topic {place}", _unused_retries,
    ),
    Check(
        "topic-of-no-service", Severity.NOTE, "It is left from a service that was removed, or belongs to a namespace whose name begins alike.",
        "look at its records; if nobody needs them: kafka-topics.sh --bootstrap-server {bootstrap} --delete --topic {place}", _strangers,
    ),
)  # fmt: skip
"""The checks of topics."""
