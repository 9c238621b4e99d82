"""The checks of the doctor, over facts: a healthy cluster has no finding, and each check finds what is planted for it, and nothing else."""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from conversations.config import Periods
from conversations.durations import SECOND
from conversations.kafka.cluster import INTERNAL, Broker, Cluster, FoundPartition, FoundTopic
from conversations.kafka.topic_settings import wanted
from conversations.protocol.declarations import ServiceDeclaration
from conversations.protocol.topics import SERVICE_TOPICS
from conversations.stores.inspection import Copy
from conversations_ops.doctor.checks import CHECKS, findings, refusals
from conversations_ops.doctor.facts import Disk, Facts, KnownService, LocalPath, Machine, Namespace
from conversations_ops.doctor.findings import Finding, Severity, general
from conversations_ops.doctor.fitness import REFUSED, ClusterUnfit, Fitness, check_names

NOW = 1_800_000_000 * SECOND
BROKER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "auto.create.topics.enable": "false",
    "default.replication.factor": "3",
    "group.consumer.assignors": "uniform,range",
    "group.consumer.session.timeout.ms": "45000",
    "group.coordinator.rebalance.protocols": "classic,consumer,streams",
    "log.cleaner.enable": "true",
    "min.insync.replicas": "2",
    "offsets.retention.minutes": "10080",
    "offsets.topic.replication.factor": "3",
    "producer.id.expiration.ms": "86400000",
    "transaction.max.timeout.ms": "900000",
    "transaction.partition.verification.enable": "true",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.replication.factor": "3",
    "transactional.id.expiration.ms": "604800000",
    "unclean.leader.election.enable": "false",
}
FEATURES = {"group.version": 1, "transaction.version": 2, "metadata.version": 25}
RIGHTS = frozenset({"READ", "WRITE", "DESCRIBE"})


def topic(name: str, settings: Mapping[str, str], partitions: int = 2, count: int = 3) -> FoundTopic:
    replicas = tuple(range(1, count + 1))
    found = tuple(FoundPartition(number, 1, replicas, replicas) for number in range(partitions))
    return FoundTopic(name, found, {"min.insync.replicas": "2", **settings}, RIGHTS)


def healthy() -> Facts:
    """A cluster of three brokers, with one service that reads a plain topic, and a machine with one local copy."""
    declaration = ServiceDeclaration("orders", retries=("5s",), reads=("shop.clicks",))
    topics = [topic(f"conv.orders.{kind}", wanted(kind)) for kind in SERVICE_TOPICS]
    topics += [topic(f"conv.{kind}", wanted(kind), 1) for kind in ("catalog", "events", "metrics", "operators")]
    topics += [topic("conv.orders.retry.5s", wanted("retry")), topic("shop.clicks", {})]
    brokers = tuple(Broker(number, f"kafka-{number}:9092", BROKER) for number in (1, 2, 3))
    machine = Machine(
        versions={"python": (3, 11, 7), "librdkafka": (2, 12, 0), "rocksdict": (0, 3, 24), "java": (17,)},
        settings={"security.protocol": "SASL_SSL"},
        settings_file=LocalPath(Path("shop.settings"), 0o600, has_secrets=True),
        stores=(LocalPath(Path("state"), 0o700),),
        copies=(Copy(Path("state/orders/a-1/0"), saved_at=NOW // SECOND - 60),),
        read_model=LocalPath(Path("model.sqlite"), 0o600),
        disks=(Disk(Path("/"), 50_000_000_000),),
        now=NOW,
    )
    return Facts(
        "kafka-1:9092",
        Cluster(brokers, {name: topic(name, {}, 50) for name in INTERNAL}, features=FEATURES),
        Namespace("conv", {"orders": KnownService(declaration, 2)}, topics={it.name: it for it in topics}),
        machine,
        Periods(),
    )


# -- changes -----------------------------------------------------------------------------------------------------------

Change = Callable[[Facts], Facts]


def broker(**changed: str) -> Change:
    """Change settings of all brokers. A name has ``__`` for each dot."""
    settings = {name.replace("__", "."): value for name, value in changed.items()}

    def change(facts: Facts) -> Facts:
        brokers = tuple(replace(it, settings={**(it.settings or {}), **settings}) for it in facts.cluster.brokers)
        return replace(facts, cluster=replace(facts.cluster, brokers=brokers))

    return change


def features(**levels: int) -> Change:
    def change(facts: Facts) -> Facts:
        found = {**FEATURES, **{name.replace("_", "."): level for name, level in levels.items()}}
        return replace(facts, cluster=replace(facts.cluster, features=found))

    return change


def brokers(count: int) -> Change:
    return lambda facts: replace(facts, cluster=replace(facts.cluster, brokers=facts.cluster.brokers[:count]))


def internal(name: str, change_topic: Callable[[FoundTopic], FoundTopic] | None) -> Change:
    """Change one of Kafka's own topics; with None, it does not exist."""

    def change(facts: Facts) -> Facts:
        found = dict(facts.cluster.internal)
        if change_topic is None:
            del found[name]
        else:
            found[name] = change_topic(found[name])
        return replace(facts, cluster=replace(facts.cluster, internal=found))

    return change


def on(name: str, change_topic: Callable[[FoundTopic], FoundTopic] | None) -> Change:
    """Change one topic; with None, it does not exist."""

    def change(facts: Facts) -> Facts:
        topics = dict(facts.namespace.topics)
        if change_topic is None:
            del topics[name]
        else:
            topics[name] = change_topic(topics[name])
        return replace(facts, namespace=replace(facts.namespace, topics=topics))

    return change


def setting(name: str, value: str) -> Callable[[FoundTopic], FoundTopic]:
    return lambda it: replace(it, settings={**(it.settings or {}), name: value})


def partition(**changed: Any) -> Callable[[FoundTopic], FoundTopic]:
    """Change the first partition."""
    return lambda it: replace(it, partitions=(replace(it.partitions[0], **changed), *it.partitions[1:]))


def kept_by(*numbers: int) -> Callable[[FoundTopic], FoundTopic]:
    return lambda it: replace(
        it, partitions=tuple(replace(p, replicas=numbers, in_sync=numbers) for p in it.partitions)
    )


def namespace(**changed: Any) -> Change:
    return lambda facts: replace(facts, namespace=replace(facts.namespace, **changed))


def machine(**changed: Any) -> Change:
    return lambda facts: replace(facts, machine=replace(facts.machine, **changed))


def settings(**changed: str) -> Change:
    given = {name.replace("_", "."): value for name, value in changed.items()}
    return lambda facts: replace(facts, machine=replace(facts.machine, settings={**facts.machine.settings, **given}))


def both(*changes: Change) -> Change:
    def change(facts: Facts) -> Facts:
        for it in changes:
            facts = it(facts)
        return facts

    return change


def one_differs(facts: Facts) -> Facts:
    first, *others = facts.cluster.brokers
    changed = replace(first, settings={**BROKER, "group.consumer.session.timeout.ms": "30000"})
    return replace(facts, cluster=replace(facts.cluster, brokers=(changed, *others)))


def and_service(**changed: Any) -> Change:
    def change(facts: Facts) -> Facts:
        known = facts.namespace.services["orders"]
        changed_one = replace(known, declaration=replace(known.declaration, **changed))
        return replace(facts, namespace=replace(facts.namespace, services={"orders": changed_one}))

    return change


TRANSACTIONS, OFFSETS = INTERNAL
QUEUE, STATE = "conv.orders.queue", "conv.orders.state"
MB = 1_000_000
PLANTED: dict[str, Change] = {
    "group-protocol": features(group_version=0),
    "group-assignors": broker(group__consumer__assignors="uniform"),
    "transaction-timeout": broker(transaction__max__timeout__ms="9999"),
    "internal-topic-impossible": both(internal(TRANSACTIONS, None), broker(transaction__state__log__replication__factor="4")),
    "internal-min-isr": internal(OFFSETS, setting("min.insync.replicas", "4")),
    "internal-no-leader": internal(OFFSETS, partition(leader=None)),
    "transaction-state-replicas": internal(TRANSACTIONS, lambda it: setting("min.insync.replicas", "1")(kept_by(1)(it))),
    "transaction-state-min-isr": internal(TRANSACTIONS, setting("min.insync.replicas", "1")),
    "unclean-leader-election": broker(unclean__leader__election__enable="true"),
    "offsets-replicas": internal(OFFSETS, lambda it: setting("min.insync.replicas", "1")(kept_by(1)(it))),
    "offsets-min-isr": internal(OFFSETS, setting("min.insync.replicas", "1")),
    "internal-few-replicas": internal(OFFSETS, kept_by(1, 2)),
    "transaction-verification": broker(transaction__partition__verification__enable="false"),
    "transactional-id-expiration": broker(transactional__id__expiration__ms="86399999"),
    "producer-id-expiration": broker(producer__id__expiration__ms="599999"),
    "offsets-retention": broker(offsets__retention__minutes="10079"),
    "session-timeout": broker(group__consumer__session__timeout__ms="60001"),
    "auto-create-topics": broker(auto__create__topics__enable="true"),
    "log-cleaner": broker(log__cleaner__enable="false"),
    "brokers-differ": one_differs,
    "transaction-version": features(transaction_version=1),
    "few-brokers": brokers(2),
    "topic-missing": on(STATE, None),
    "partition-count": on(QUEUE, lambda it: replace(it, partitions=it.partitions[:1])),
    "cleanup-policy": on(STATE, setting("cleanup.policy", "delete")),
    "timestamp-type": on("conv.orders.commands", setting("message.timestamp.type", "CreateTime")),
    "queue-retention": on(QUEUE, setting("retention.ms", "86400000")),
    "retention-bytes": on("conv.orders.dead-letter", setting("retention.bytes", "1000000")),
    "deletes-retention": on(STATE, setting("delete.retention.ms", "86399999")),
    "record-size": on(STATE, setting("max.message.bytes", "1048576")),
    "topic-unclean-leader-election": on("conv.catalog", setting("unclean.leader.election.enable", "true")),
    "one-replica": on(QUEUE, lambda it: setting("min.insync.replicas", "1")(kept_by(1)(it))),
    "min-insync-replicas": on(QUEUE, setting("min.insync.replicas", "1")),
    "min-insync-too-large": on(QUEUE, setting("min.insync.replicas", "4")),
    "no-leader": on(QUEUE, partition(leader=None)),
    "too-few-in-sync": on(QUEUE, partition(in_sync=(1,))),
    "hanging-transaction": namespace(open_since={(QUEUE, 1): NOW - 911 * SECOND}),
    "few-replicas": both(on(QUEUE, lambda it: setting("min.insync.replicas", "1")(kept_by(1, 2)(it)))),
    "no-spare-replica": on(QUEUE, setting("min.insync.replicas", "3")),
    "under-replicated": on(QUEUE, partition(in_sync=(1, 2))),
    "topic-setting": on("conv.events", setting("retention.ms", "1000")),
    "operators-topic-missing": on("conv.operators", None),
    "plain-topic-missing": on("shop.clicks", None),
    "retry-topic-unused": and_service(retries=()),
    "topic-of-no-service": namespace(services={}),
    "right-missing": both(lambda facts: replace(facts, roles=("worker",)), on(QUEUE, lambda it: replace(it, rights=RIGHTS - {"READ"}))),
    "right-of-another-role": on(QUEUE, lambda it: replace(it, rights=RIGHTS - {"READ"})),
    "no-authorizer": broker(authorizer__class__name=""),
    "version-too-old": machine(versions={**healthy().machine.versions, "librdkafka": (2, 11, 9)}),
    "settings-refused": machine(refused="acks must be all"),
    "store-unusable": machine(stores=(LocalPath(Path("state"), is_writable=False),)),
    "store-damaged": machine(copies=(Copy(Path("state/orders/a-1/0"), damage="block checksum mismatch"),)),
    "store-open": machine(stores=(LocalPath(Path("state"), 0o755),)),
    "read-model-damaged": machine(read_model_damage="file is not a database"),
    "disk-full": machine(disks=(Disk(Path("/"), 999 * MB),)),
    "settings-file-open": machine(settings_file=LocalPath(Path("shop.settings"), 0o644, has_secrets=True)),
    "certificates-not-verified": settings(enable_ssl_certificate_verification="false"),
    "clock-behind": namespace(ahead={(QUEUE, 0): NOW + 11 * SECOND}),
    "worker-clock-off": namespace(clocks_off={"orders": -75.0}),
    "open-files": machine(open_files=256),
    "setting-without-effect": settings(isolation_level="read_uncommitted"),
    "store-old": machine(copies=(Copy(Path("state/orders/a-1/0"), saved_at=NOW // SECOND - 43_201),)),
    "plaintext": settings(security_protocol="SASL_PLAINTEXT"),
    "java-missing": machine(versions={name: it for name, it in healthy().machine.versions.items() if name != "java"}),
    "not-looked-at": lambda facts: replace(facts, not_seen=("the settings of broker 1 cannot be read",)),
}  # fmt: skip
"""What is planted for each check."""
WITH_OTHERS = {
    "few-brokers": {"internal-topic-impossible"},
    "too-few-in-sync": {"under-replicated"},
    "topic-of-no-service": set(),
}
"""Findings that come with those of another check, because one fact has two effects."""


def names(found: list[Finding]) -> set[str]:
    return {it.check.name for it in found}


def test_a_healthy_cluster_has_no_finding() -> None:
    assert findings(healthy()) == []


def test_something_is_planted_for_each_check() -> None:
    assert set(PLANTED) == {it.name for it in CHECKS}
    assert len(CHECKS) == len({it.name for it in CHECKS})


@pytest.mark.parametrize("name", PLANTED)
def test_each_check_finds_what_is_planted_for_it(name: str) -> None:
    found = findings(PLANTED[name](healthy()))
    assert name in names(found)
    assert names(found) <= {name} | WITH_OTHERS.get(name, set())
    for it in found:
        assert it.place
        assert it.found
        assert it.needed
        assert "{" not in it.fix
        assert it.check.why[0].isupper()
        assert it.check.why.endswith((".", "?"))


def test_the_worst_comes_first() -> None:
    found = findings(both(PLANTED["few-brokers"], PLANTED["log-cleaner"], PLANTED["cleanup-policy"])(healthy()))
    assert [it.check.severity for it in found] == sorted((it.check.severity for it in found), key=list(Severity).index)


def test_the_fix_of_a_topic_can_be_run_as_it_is_printed() -> None:
    (found,) = findings(PLANTED["min-insync-replicas"](healthy()))
    assert found.fix == (
        "kafka-configs.sh --bootstrap-server kafka-1:9092 --alter --entity-type topics --entity-name conv.orders.queue "
        "--add-config min.insync.replicas=2"
    )
    (found,) = findings(replace(PLANTED["cleanup-policy"](healthy()), targets=("shop.orders:service",)))
    assert found.fix == "conversations apply shop.orders:service --bootstrap kafka-1:9092 --namespace conv"


def test_what_a_fix_names_is_quoted_for_the_shell() -> None:
    strange = "state; rm -rf ~"
    (found,) = findings(machine(stores=(LocalPath(Path(strange), 0o755),))(healthy()))
    assert shlex.split(found.fix) == ["chmod", "go-rwx", strange]


def test_the_page_has_capital_words_for_what_is_found() -> None:
    told = {it.name: general(it) for it in CHECKS}
    assert "--entity-name PLACE --add-config SETTING=VALUE" in told["min-insync-replicas"]


# -- single rules ------------------------------------------------------------------------------------------------------


def test_the_longest_lifetime_of_a_given_service_counts() -> None:
    assert names(findings(and_service(lifetime=timedelta(days=30))(healthy()))) == {"queue-retention"}


def test_the_periods_of_the_namespace_count() -> None:
    facts = replace(healthy(), periods=replace(Periods(), deletes_kept=2 * Periods().deletes_kept))
    assert {it.place for it in findings(facts) if it.check.name == "deletes-retention"} == {STATE}


def test_more_than_needed_is_no_finding() -> None:
    longer = both(on(QUEUE, setting("retention.ms", "-1")), on(STATE, setting("delete.retention.ms", "999999999")))
    assert findings(longer(healthy())) == []


def test_what_only_affects_speed_is_no_finding() -> None:
    assert findings(on(STATE, setting("segment.bytes", "1000000"))(healthy())) == []


def test_a_retry_topic_that_compacts_is_only_a_warning() -> None:
    assert names(findings(on("conv.orders.retry.5s", setting("cleanup.policy", "compact"))(healthy()))) == {
        "topic-setting"
    }


def test_a_transaction_that_is_not_older_than_brokers_allow_is_no_finding() -> None:
    assert findings(namespace(open_since={(QUEUE, 1): NOW - 900 * SECOND})(healthy())) == []
    shorter = both(broker(transaction__max__timeout__ms="20000"), namespace(open_since={(QUEUE, 1): NOW - 40 * SECOND}))
    assert names(findings(shorter(healthy()))) == {"hanging-transaction"}


def test_a_namespace_without_a_catalog_misses_no_topics() -> None:
    assert findings(namespace(has_catalog=False, services={}, topics={})(healthy())) == []


def test_a_hidden_topic_is_not_missing() -> None:
    found = findings(both(on(STATE, None), namespace(hidden=frozenset({STATE})))(healthy()))
    assert "topic-missing" not in names(found)
    assert {(it.check.name, it.place) for it in found} == {("right-of-another-role", STATE)}


def test_a_value_that_is_just_enough_is_no_finding() -> None:
    enough = both(
        broker(
            transaction__max__timeout__ms="10000", transactional__id__expiration__ms="86400000", producer__id__expiration__ms="600000",
            group__consumer__session__timeout__ms="60000",
        ),
        machine(
            disks=(Disk(Path("/"), 1_000 * MB),), open_files=1_024,
            copies=(Copy(Path("state/orders/a-1/0"), saved_at=NOW // SECOND - 43_200),),
        ),
        namespace(open_since={(QUEUE, 1): NOW - 20 * SECOND}),
    )  # fmt: skip
    assert findings(enough(healthy())) == []


def test_an_expiration_that_is_switched_off_is_no_finding() -> None:
    assert findings(broker(transactional__id__expiration__ms="-1")(healthy())) == []


def test_partitions_that_never_had_enough_replicas_are_not_told_to_wait_for_them() -> None:
    found = findings(
        on(QUEUE, lambda it: setting("min.insync.replicas", "4")(partition(in_sync=(1, 2))(it)))(healthy())
    )
    assert names(found) == {"min-insync-too-large", "under-replicated"}


def test_partitions_with_just_enough_replicas_take_records() -> None:
    assert names(findings(on(QUEUE, partition(in_sync=(1, 3)))(healthy()))) == {"under-replicated"}


def test_a_group_instance_has_no_effect() -> None:
    (found,) = findings(settings(group_instance_id="a")(healthy()))
    assert (found.check.name, found.needed.split(",")[0]) == ("setting-without-effect", "no group.instance.id")
    assert findings(settings(acks="all", isolation_level="read_committed")(healthy())) == []


def test_a_clock_is_told_with_its_side() -> None:
    for seconds, side in ((75.0, "75 s ahead of"), (-75.0, "75 s behind")):
        (found,) = findings(namespace(clocks_off={"orders": seconds})(healthy()))
        assert side in found.found


def test_plain_topics_may_have_any_settings() -> None:
    assert findings(on("shop.clicks", setting("cleanup.policy", "compact"))(healthy())) == []


def test_a_local_broker_needs_no_encryption() -> None:
    for address in ("localhost:9092", "127.0.0.1:1", "PLAINTEXT://127.0.0.1:1", "[::1]:9092"):
        facts = replace(settings(security_protocol="PLAINTEXT")(healthy()), bootstrap=address)
        assert findings(facts) == []


def test_a_directory_for_all_users_may_be_open() -> None:
    assert findings(machine(stores=(LocalPath(Path("/tmp"), 0o1777),))(healthy())) == []


def test_a_settings_file_without_secrets_may_be_open() -> None:
    assert findings(machine(settings_file=LocalPath(Path("shop.settings"), 0o644))(healthy())) == []


# -- what apply refuses ------------------------------------------------------------------------------------------------


def single(**changed: str) -> Facts:
    """A new cluster of one broker, with the settings that a broker for development needs, or others."""
    needed = {
        "default__replication__factor": "1", "min__insync__replicas": "1", "offsets__topic__replication__factor": "1",
        "transaction__state__log__min__isr": "1", "transaction__state__log__replication__factor": "1",
    }  # fmt: skip
    change = both(brokers(1), internal(TRANSACTIONS, None), internal(OFFSETS, None), broker(**{**needed, **changed}))
    return change(healthy())


def test_a_single_broker_for_development_is_fit() -> None:
    assert refusals(single()) == []


def test_three_brokers_with_the_defaults_of_kafka_are_fit() -> None:
    defaults = broker(default__replication__factor="1", min__insync__replicas="1", auto__create__topics__enable="true")
    new = both(defaults, internal(TRANSACTIONS, None), internal(OFFSETS, None))
    assert refusals(new(healthy())) == []


def test_a_single_broker_with_the_defaults_of_kafka_is_not_fit() -> None:
    found = refusals(single(transaction__state__log__replication__factor="3", transaction__state__log__min__isr="2"))
    assert [(it.check.name, it.place) for it in found] == [("internal-topic-impossible", TRANSACTIONS)]
    assert "transaction.state.log.min.isr=1" in found[0].fix


def test_a_single_broker_that_asks_for_two_replicas_in_sync_is_not_fit() -> None:
    found = refusals(single(transaction__state__log__min__isr="2"))
    assert [(it.check.name, it.place) for it in found] == [("internal-min-isr", TRANSACTIONS)]
    assert found[0].fix.startswith("set transaction.state.log.min.isr=1 in server.properties")


def test_what_apply_mends_or_makes_is_not_refused() -> None:
    facts = both(
        on("conv.orders.commands", setting("cleanup.policy", "compact")), on(STATE, None), PLANTED["one-replica"]
    )(healthy())
    assert {"cleanup-policy", "topic-missing", "one-replica"} <= names(findings(facts))
    assert refusals(facts) == []


def test_settings_that_cannot_be_read_are_no_reason_to_refuse() -> None:
    facts = single()
    blind = tuple(replace(it, settings=None) for it in facts.cluster.brokers)
    assert refusals(replace(facts, cluster=replace(facts.cluster, brokers=blind, features=None))) == []


def test_apply_goes_on_only_despite_all_findings() -> None:
    facts = both(PLANTED["group-protocol"], PLANTED["unclean-leader-election"])(healthy())
    fitness = Fitness(facts.cluster, tuple(refusals(facts)))
    with pytest.raises(ClusterUnfit) as error:
        fitness.refuse(["group-protocol"])
    assert "fix: kafka-configs.sh" in str(error.value)
    assert str(error.value).endswith("to go on all the same: --despite unclean-leader-election")
    lines = fitness.refuse(["group-protocol", "unclean-leader-election"])
    assert [line.split(":")[0] for line in lines] == ["went on despite group-protocol"] + [
        "went on despite unclean-leader-election"
    ] * 3


def test_a_name_that_apply_does_not_refuse_is_no_name() -> None:
    check_names(REFUSED)
    with pytest.raises(Exception, match="the nearest name is group-protocol"):
        check_names(["group-protocoll"])
    with pytest.raises(Exception, match="refuses no finding of this name"):
        check_names(["log-cleaner"])


def test_a_default_of_three_replicas_gives_new_topics_two_in_sync() -> None:
    three = Fitness(healthy().cluster, ())
    assert (three.replication(-1), three.replication(2)) == (3, 2)
    assert Fitness(single().cluster, ()).replication(-1) == -1
