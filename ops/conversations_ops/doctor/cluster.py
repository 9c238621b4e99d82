"""Checks of the brokers and of Kafka's own topics. ``conversations apply`` refuses what they call fatal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from conversations.durations import MINUTE, SECOND, milliseconds
from conversations.kafka.cluster import INTERNAL, FoundPartition, FoundTopic
from conversations.kafka.consumer import PROTOCOLS
from conversations.kafka.transactions import SAFE as OF_TRANSACTIONS
from conversations_ops.doctor import replicas
from conversations_ops.doctor.facts import Facts
from conversations_ops.doctor.findings import Check, Hit, Severity

TRANSACTION_STATE, OFFSETS = INTERNAL
ASSIGNOR = PROTOCOLS["consumer"]["group.remote.assignor"]
SESSION = 1 * MINUTE
"""Longest time for which the partitions of a killed worker should wait."""
_REPLICATION = {
    TRANSACTION_STATE: "transaction.state.log.replication.factor",
    OFFSETS: "offsets.topic.replication.factor",
}
_MIN_ISR = {TRANSACTION_STATE: "transaction.state.log.min.isr", OFFSETS: "min.insync.replicas"}
"""The brokers' settings with which Kafka makes its own topics."""
_ALIKE = (
    "auto.create.topics.enable", "group.consumer.assignors", "group.consumer.session.timeout.ms", "log.cleaner.enable",
    "offsets.retention.minutes", "producer.id.expiration.ms", "transaction.max.timeout.ms", "transaction.partition.verification.enable",
    "transactional.id.expiration.ms", "unclean.leader.election.enable",
)  # fmt: skip
"""Settings that should be the same on all brokers."""
IN_FILE = "set {setting}={value} in server.properties of each broker, and restart the brokers one after the other"
DYNAMIC = "kafka-configs.sh --bootstrap-server {bootstrap} --alter --entity-type brokers --entity-default --add-config {setting}={value}"
REASSIGN = "kafka-reassign-partitions.sh --bootstrap-server {bootstrap} --reassignment-json-file FILE --execute, with three replicas for each partition of {place}"
RAISE = (
    "kafka-configs.sh --bootstrap-server {bootstrap} --alter --entity-type topics --entity-name {place} "
    "--add-config min.insync.replicas={value}"
)

# -- settings of brokers -----------------------------------------------------------------------------------------------


def _settings(name: str, is_wrong: Callable[[str], bool], value: str) -> Callable[[Facts], Iterator[Hit]]:
    """Return a look at one setting of each broker. A broker whose settings are not known, or that lacks the setting, is left out."""

    def look(facts: Facts) -> Iterator[Hit]:
        for broker in facts.cluster.brokers:
            found = (broker.settings or {}).get(name)
            if found is not None and is_wrong(found):
                needed = f"{name}={value}"
                yield Hit(f"broker {broker.id}", f"{name}={found}", needed, {"setting": name, "value": value})

    return look


def _at_least(name: str, least: Callable[[Facts], int], *, most: bool = False) -> Callable[[Facts], Iterator[Hit]]:
    """Return a look at one setting of each broker that is a number. With ``most``, the bound is an upper bound."""

    def look(facts: Facts) -> Iterator[Hit]:
        bound = least(facts)
        word = "at most" if most else "at least"
        for hit in _settings(name, lambda found: _is_beyond(found, bound, most=most), str(bound))(facts):
            yield hit._replace(needed=f"{name} {word} {bound}")

    return look


def _is_beyond(found: str, bound: int, *, most: bool) -> bool:
    number = int(found) if found.lstrip("-").isdigit() else bound
    return number > bound if most else 0 <= number < bound


def _is_on(found: str) -> bool:
    return found.lower() == "true"


def _is_off(found: str) -> bool:
    return found.lower() == "false"


def _without_assignor(found: str) -> bool:
    names = [name.strip().lower() for name in found.split(",")]
    return not any(name == ASSIGNOR or name.endswith(f".{ASSIGNOR}assignor") for name in names)


def _differing(facts: Facts) -> Iterator[Hit]:
    for name in _ALIKE:
        values = {it.id: it.settings[name] for it in facts.cluster.brokers if it.settings and name in it.settings}
        if len(set(values.values())) > 1:
            told = ", ".join(f"{value} on broker {number}" for number, value in values.items())
            yield Hit(name, told, "one value on all brokers")


# -- features ----------------------------------------------------------------------------------------------------------


def _feature(name: str, least: int) -> Callable[[Facts], Iterator[Hit]]:
    def look(facts: Facts) -> Iterator[Hit]:
        if facts.cluster.features is not None and (found := facts.cluster.features.get(name, 0)) < least:
            yield Hit("the cluster", f"{name} is {found}", f"{name} at least {least}")

    return look


def _group_protocol(facts: Facts) -> Iterator[Hit]:
    yield from _feature("group.version", 1)(facts)
    for broker in facts.cluster.brokers:
        found = (broker.settings or {}).get("group.coordinator.rebalance.protocols")
        if found is not None and "consumer" not in {name.strip() for name in found.split(",")}:
            yield Hit(f"broker {broker.id}", f"group.coordinator.rebalance.protocols={found}", "consumer among them")


# -- Kafka's own topics ------------------------------------------------------------------------------------------------


def _internal(
    names: tuple[str, ...], is_wrong: Callable[[FoundTopic, Facts], bool], needed: str, setting: Mapping[str, str], value: str
) -> Callable[[Facts], Iterator[Hit]]:  # fmt: skip
    """Return a look at some of Kafka's own topics. If Kafka has not made one yet, ``setting`` of the brokers is to blame, and needs ``value``."""

    def look(facts: Facts) -> Iterator[Hit]:
        for name in names:
            topic = _expected(facts, name)
            if topic is None or not is_wrong(topic, facts):
                continue
            found = f"{_times(topic.replication, 'replica')}, min.insync.replicas {replicas.min_insync(topic)}"
            words = {"setting": setting[name], "value": value}
            if name in facts.cluster.internal:
                yield Hit(name, found, needed, words)
            else:
                # A topic with more replicas than brokers is never made. Its check names all settings of a single broker.
                other = "" if topic.replication > len(facts.cluster.brokers) else IN_FILE
                yield Hit(name, f"{found}, when Kafka makes it", needed, words, other)

    return look


def _expected(facts: Facts, name: str) -> FoundTopic | None:
    """Return one of Kafka's own topics as it is, or as the brokers will make it. None if that is not known."""
    if name in facts.cluster.internal:
        return facts.cluster.internal[name]
    settings = next((it.settings for it in facts.cluster.brokers if it.settings), None)
    if name in facts.cluster.hidden or settings is None or not settings.get(_REPLICATION[name], "").isdigit():
        return None
    least = settings.get(_MIN_ISR[name], "")
    made = tuple(range(int(settings[_REPLICATION[name]])))
    return FoundTopic(name, (FoundPartition(0, 0, made, made),), {"min.insync.replicas": least})


def _cannot_be_made(topic: FoundTopic, facts: Facts) -> bool:
    return topic.name not in facts.cluster.internal and topic.replication > len(facts.cluster.brokers)


def _few_brokers(facts: Facts) -> Iterator[Hit]:
    if (count := len(facts.cluster.brokers)) < replicas.ENOUGH:
        yield Hit("the cluster", _times(count, "broker"), f"{replicas.ENOUGH} brokers, outside of development")


def _no_leader(facts: Facts) -> Iterator[Hit]:
    for topic in facts.cluster.internal.values():
        numbers = [str(it.number) for it in topic.partitions if it.leader is None]
        if numbers:
            yield Hit(topic.name, f"no leader: partition {', '.join(numbers)}", "a leader for each partition")


def _times(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _in_file(setting: str) -> str:
    return IN_FILE.replace("{setting}", setting)


def _dynamic(setting: str) -> str:
    return DYNAMIC.replace("{setting}", setting)


BOTH = (TRANSACTION_STATE, OFFSETS)
CHECKS = (
    Check(
        "group-protocol", Severity.FATAL, "Workers share partitions with the consumer protocol (KIP-848), which Kafka 4.0 and newer have. Without it no worker can join.",
        "kafka-features.sh --bootstrap-server {bootstrap} upgrade --feature group.version=1", _group_protocol,
    ),
    Check(
        "group-assignors", Severity.FATAL, f"Workers ask for the assignor {ASSIGNOR}. Brokers refuse a member with an assignor that they lack.",
        _in_file("group.consumer.assignors"), _settings("group.consumer.assignors", _without_assignor, f"uniform,{ASSIGNOR}"),
    ),
    Check(
        "transaction-timeout", Severity.FATAL, "Workers ask for this transaction time-out. Brokers refuse a longer one, so no worker can start.",
        _in_file("transaction.max.timeout.ms"), _at_least("transaction.max.timeout.ms", lambda _: OF_TRANSACTIONS["transaction.timeout.ms"]),
    ),
    Check(
        "internal-topic-impossible", Severity.FATAL, "Kafka cannot make the topic with so few brokers. Until then, no transaction and no group works.",
        "start more brokers; or, for a single broker, set transaction.state.log.replication.factor=1, transaction.state.log.min.isr=1 and "
        "offsets.topic.replication.factor=1 in its server.properties, and restart it",
        _internal(BOTH, _cannot_be_made, "at most as many replicas as brokers", _REPLICATION, "1"),
    ),
    Check(
        "internal-min-isr", Severity.FATAL, "More replicas must be in sync than there are. Kafka refuses every record, so no transaction and no group works.",
        RAISE, _internal(BOTH, lambda topic, _: replicas.takes_nothing(topic), "min.insync.replicas at most the number of replicas", _MIN_ISR, "1"),
    ),
    Check(
        "internal-no-leader", Severity.FATAL, "Transactions or groups whose state is there cannot work.",
        "start the brokers that are down", _no_leader,
    ),
    Check(
        "transaction-state-replicas", Severity.FATAL,
        "The outcome of each transaction is there. If the only broker that has it is lost, a step can be committed on some topics and not on others.",
        REASSIGN, _internal((TRANSACTION_STATE,), lambda topic, facts: replicas.has_one_replica(topic, facts.cluster), "3 replicas", _REPLICATION, "3"),
    ),
    Check(
        "transaction-state-min-isr", Severity.FATAL,
        "One broker may confirm the outcome of a transaction that no other broker has. If it is lost, the outcome changes.",
        RAISE, _internal((TRANSACTION_STATE,), lambda topic, _: replicas.acknowledges_alone(topic), "min.insync.replicas 2", _MIN_ISR, "2"),
    ),
    Check(
        "unclean-leader-election", Severity.FATAL,
        "The topics of the namespace override it, but Kafka's own topics do not: a broker that lacks the outcomes of transactions may become their leader.",
        _dynamic("unclean.leader.election.enable"), _settings("unclean.leader.election.enable", _is_on, "false"),
    ),
    Check(
        "offsets-replicas", Severity.WARNING,
        "While the only broker that has it is down, no group works. Positions that are lost are also in the state topics, but not those of feeds.",
        REASSIGN, _internal((OFFSETS,), lambda topic, facts: replicas.has_one_replica(topic, facts.cluster), "3 replicas", _REPLICATION, "3"),
    ),
    Check(
        "offsets-min-isr", Severity.WARNING,
        "One broker may confirm positions that no other broker has. The positions of queues are also in the state topics, but not those of feeds.",
        RAISE, _internal((OFFSETS,), lambda topic, _: replicas.acknowledges_alone(topic), "min.insync.replicas 2", _MIN_ISR, "2"),
    ),
    Check(
        "internal-few-replicas", Severity.WARNING, "One more broker may be lost with three replicas.",
        REASSIGN, _internal(BOTH, lambda topic, facts: replicas.has_few_replicas(topic, facts.cluster), "3 replicas", _REPLICATION, "3"),
    ),
    Check(
        "transaction-verification", Severity.WARNING,
        "A late record of a dead worker may begin a transaction that nobody ends. Its partition then stands still for every reader.",
        _dynamic("transaction.partition.verification.enable"), _settings("transaction.partition.verification.enable", _is_off, "true"),
    ),
    Check(
        "transactional-id-expiration", Severity.WARNING,
        "Kafka forgets the transactional id of a worker that is idle for so long. The worker must then make a new producer.",
        _in_file("transactional.id.expiration.ms"), _at_least("transactional.id.expiration.ms", lambda facts: milliseconds(facts.periods.command_life)),
    ),
    Check(
        "producer-id-expiration", Severity.WARNING, "Kafka forgets which records a producer has sent. A record that is sent again is then written twice.",
        _dynamic("producer.id.expiration.ms"), _at_least("producer.id.expiration.ms", lambda facts: milliseconds(facts.periods.grace)),
    ),
    Check(
        "offsets-retention", Severity.WARNING,
        "Kafka forgets the positions of a service that is stopped for so long. A feed then begins as if it was new.",
        _in_file("offsets.retention.minutes"), _at_least("offsets.retention.minutes", lambda facts: facts.periods.inbox_kept // MINUTE),
    ),
    Check(
        "session-timeout", Severity.WARNING, "The partitions of a killed worker wait for this time.",
        _in_file("group.consumer.session.timeout.ms"), _at_least("group.consumer.session.timeout.ms", lambda _: SESSION // (SECOND // 1_000), most=True),
    ),
    Check(
        "auto-create-topics", Severity.WARNING,
        "A mistyped name, or a client that still writes to a deleted topic, makes a topic with the wrong settings and partition count.",
        _in_file("auto.create.topics.enable"), _settings("auto.create.topics.enable", _is_on, "false"),
    ),
    Check(
        "log-cleaner", Severity.WARNING, "The state topics are compacted by the cleaner. Without it they grow for ever, and so does each restore.",
        _in_file("log.cleaner.enable"), _settings("log.cleaner.enable", _is_off, "true"),
    ),
    Check(
        "brokers-differ", Severity.WARNING, "What works depends on the broker that leads a partition, and changes when it moves.",
        "set {place} to one value in server.properties of all brokers, and restart them one after the other", _differing,
    ),
    Check(
        "transaction-version", Severity.NOTE,
        "With version 2 (KIP-890) each transaction has its own epoch, so a late record cannot join a later transaction.",
        "kafka-features.sh --bootstrap-server {bootstrap} upgrade --feature transaction.version=2", _feature("transaction.version", 2),
    ),
    Check(
        "few-brokers", Severity.NOTE, "With fewer than three brokers, the loss of a disk loses acknowledged records, or one stopped broker stops all work.",
        "add brokers, then give each topic three replicas", _few_brokers,
    ),
)  # fmt: skip
"""The checks of the cluster."""
