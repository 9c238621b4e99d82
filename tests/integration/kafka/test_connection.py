"""The connection of a worker to a real broker."""

import gc
from collections.abc import Sequence
from secrets import token_hex
from time import monotonic, perf_counter, time_ns
from typing import Any, Literal
from weakref import ref

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from conversations.config import Kafka
from conversations.errors import (
    DestinationFailed,
    Fenced,
    InDoubt,
    InputLost,
    Interrupted,
    KafkaNotReady,
    KafkaUnreachable,
    LogError,
)
from conversations.kafka import logins
from conversations.kafka.admin import apply
from conversations.kafka.clients import Topic
from conversations.kafka.connection import KafkaConnection
from conversations.kafka.consumer import Inputs
from conversations.ports import Out, Positions
from conversations.protocol.declarations import ServiceDeclaration
from conversations.protocol.topics import QUEUE
from conversations_ops.broker import EmbeddedBroker
from tests.integration.kafka.members import PARTITIONS, START, Member, fill, restored, topic, until

pytestmark = pytest.mark.kafka

PROTOCOLS: list[Literal["consumer", "classic"]] = ["consumer", "classic"]


def test_nothing_flows_before_open_and_then_queue_and_commands_do(kafka: Kafka, member: Member) -> None:
    fill(kafka, topic(kafka, "queue"), [b"q0", b"q1", b"q2"])
    fill(kafka, topic(kafka, "commands"), [b"c0", b"c1"])
    assert member.connection.end(QUEUE, 0) == 3
    assert not member.poll(0.3)
    member.connection.open(0, Positions(1, None))
    member.awaits(b"q1", b"q2", b"c0", b"c1")
    assert member.values("queue") == [b"q1", b"q2"]
    assert member.values("commands") == [b"c0", b"c1"]


def test_a_closed_connection_is_freed_without_the_garbage_collector(kafka: Kafka, member: Member) -> None:
    """Else each time that a worker joins again leaves the threads of a client behind."""
    freed = ref(member.connection._joined())
    gc.disable()
    try:
        member.connection.close()
        assert freed() is None
    finally:
        gc.enable()


def test_the_end_of_a_partition_does_not_end_a_poll(kafka: Kafka, member: Member) -> None:
    fill(kafka, topic(kafka, "queue"), [b"q0"])
    member.connection.open(0, START)
    member.awaits(b"q0")
    member.connection.open(1, START)  # its queue and its commands are at their ends at once
    began = monotonic()
    assert not member.poll(0.5)
    assert monotonic() - began >= 0.5
    fill(kafka, topic(kafka, "queue"), [b"q1"], 1)
    member.awaits(b"q1")


def test_what_is_committed_is_restored_and_read_on_from(kafka: Kafka, member: Member) -> None:
    ends = member.connection.commit(
        [member.state(b"a", b"1"), member.state(b"b", b"2"), member.state(b"c", b"3", 2), member.state(b"a", None)],
        {0: 5, 2: 0},
    )
    assert ends == {0: 3, 2: 1}
    restore = member.connection.restore(0, None)
    assert restored(restore) == [(b"a", b"1"), (b"b", b"2"), (b"a", None)]
    assert restore.committed == 5
    assert restore.from_start
    rest = member.connection.restore(0, 2)
    assert restored(rest) == [(b"a", None)]
    assert not rest.from_start
    untouched = member.connection.restore(1, None)
    assert restored(untouched) == []
    assert untouched.committed is None


def test_a_restore_of_more_rows_than_a_slice_comes_in_slices(kafka: Kafka, member: Member) -> None:
    rows = [(b"%d" % n, b"v") for n in range(2500)]
    end = member.connection.commit([member.state(key, value) for key, value in rows], {0: 0})[0]
    restore = member.connection.restore(0, None)
    got: list[tuple[bytes, bytes | None]] = []
    sizes: list[int] = []

    def step() -> bool:
        some = restore.advance(1000)
        got.extend(some.rows)
        sizes.append(len(some.rows))
        return some.done

    until(step)
    restore.close()
    assert got == rows
    assert max(sizes) <= 1000
    assert end == 2500


def test_a_group_offset_alone_is_the_fence_and_an_empty_one_is_refused(member: Member) -> None:
    with pytest.raises(ValueError, match="queue offset"):
        member.connection.commit([member.state(b"a", b"1")], {})
    assert member.connection.commit([], {1: 7}) == {}
    restore = member.connection.restore(1, None)
    restored(restore)
    assert restore.committed == 7


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_zombie_cannot_commit(kafka: Kafka, protocol: str) -> None:
    # A member that stops polling is thrown out after max.poll.interval.ms; not even a step without input may commit.
    classic: dict[str, Any] = {"session.timeout.ms": 4000} if protocol == "classic" else {}
    slow = Kafka(
        kafka.bootstrap,
        namespace=kafka.namespace,
        settings={"max.poll.interval.ms": 4000, **classic},
    )
    zombie = Member(slow, protocol=protocol).join().owns(PARTITIONS)
    heir = Member(kafka, protocol=protocol).join().owns(PARTITIONS)
    with pytest.raises(Fenced):
        zombie.connection.commit([zombie.state(b"a", b"zombie")], {0: 1})
    heir.connection.commit([heir.state(b"a", b"heir")], {0: 1})
    assert restored(heir.connection.restore(0, None)) == [(b"a", b"heir")]
    until(lambda: (zombie.poll(), heir.poll(), "lost" in dict(zombie.told))[2])
    zombie.connection.close()
    heir.connection.close()


def accepted(kafka: Kafka, metadata: Any, offset: int) -> bool:
    """Tell whether the broker takes an offset of the group with this metadata."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": token_hex(8)})
    producer.init_transactions(10)
    producer.begin_transaction()
    try:
        producer.send_offsets_to_transaction([TopicPartition(topic(kafka, "queue"), 0, offset)], metadata, 10)
    except KafkaException:
        producer.abort_transaction(10)
        return False
    producer.abort_transaction(10)
    return True


def test_a_broker_fences_nobody_who_names_no_member_so_we_name_one(kafka: Kafka) -> None:
    owner = Member(kafka, protocol="classic").join().owns(PARTITIONS)
    group = f"{kafka.namespace}.orders"
    stranger = Inputs(
        kafka, (topic(kafka, "queue"), topic(kafka, "commands"), topic(kafka, "decisions")), group, "classic"
    )
    assert accepted(kafka, stranger._consumer.consumer_group_metadata(), 99)
    with pytest.raises(KafkaException, match="UNKNOWN_MEMBER_ID"):
        stranger.metadata()
    inputs = owner.connection._inputs
    assert inputs is not None
    assert accepted(kafka, inputs.metadata(), 1)
    stranger.close()
    owner.connection.close()


def test_a_stranger_to_a_new_style_group_is_refused_by_the_broker(kafka: Kafka, member: Member) -> None:
    group = f"{kafka.namespace}.orders"
    stranger = Inputs(
        kafka, (topic(kafka, "queue"), topic(kafka, "commands"), topic(kafka, "decisions")), group, "consumer"
    )
    assert not accepted(kafka, stranger.metadata(), 99)
    stranger.close()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_each_member_commits_for_what_it_has_after_a_move(kafka: Kafka, protocol: str) -> None:
    first = Member(kafka, protocol=protocol).join().owns(PARTITIONS)
    second = Member(kafka, protocol=protocol).join()
    until(lambda: (first.poll(), second.poll(), len(second.owned) == 2)[2])
    gone, kept = min(second.owned), min(first.owned)
    first.connection.commit([first.state(b"a", b"1", kept)], {kept: 1})
    second.connection.commit([second.state(b"a", b"2", gone)], {gone: 2})
    restore = first.connection.restore(gone, None)
    assert restored(restore) == [(b"a", b"2")]
    assert restore.committed == 2
    for one in (first, second):
        one.connection.close()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_two_members_share_partitions_and_commands_move_with_the_queue(kafka: Kafka, protocol: str) -> None:
    first = Member(kafka, protocol=protocol).join().owns(PARTITIONS)
    for partition in range(PARTITIONS):
        first.connection.open(partition, START)
    committed: list[int] = []

    def last_words(partitions: Sequence[int]) -> None:
        first.connection.commit([first.state(b"clean", b"1", p) for p in partitions], dict.fromkeys(partitions, 0))
        committed.extend(partitions)

    first.on_revoked = last_words
    second = Member(kafka, protocol=protocol).join()
    until(lambda: (first.poll(), second.poll(), len(second.owned) == 2)[2])
    moved = sorted(second.owned)
    assert sorted(committed) == moved
    for partition in moved:
        assert restored(second.connection.restore(partition, None)) == [(b"clean", b"1")]
        second.connection.open(partition, START)
    for partition in range(PARTITIONS):
        fill(kafka, topic(kafka, "commands"), [b"c%d" % partition], partition)
        fill(kafka, topic(kafka, "queue"), [b"q%d" % partition], partition)
    everything = {b"%c%d" % (kind, p) for kind in b"cq" for p in range(PARTITIONS)}
    until(lambda: (first.poll(), second.poll(), set(first.values()) | set(second.values()) >= everything)[2])
    assert {r.partition() for r in second.got} == set(moved)
    assert {r.partition() for r in first.got} == set(range(PARTITIONS)) - set(moved)
    assert len(first.got) + len(second.got) == len(everything)
    second.connection.close()
    assert second.told[-1] == ("revoked", moved)
    first.on_revoked = lambda _: None
    first.owns(PARTITIONS)
    first.connection.close()


@pytest.mark.parametrize("what", ["open", "drop"])
def test_only_the_callback_gives_a_partition_back(kafka: Kafka, member: Member, what: str) -> None:
    """While the group waits for partitions of a member, nothing else that it does may count as their return."""
    member.connection.open(0, START)
    member.connection.open(1, START)
    second = Member(kafka).join()
    over = monotonic() + 4
    while monotonic() < over:  # the first hears of the second within a heartbeat, and is not told before it polls
        second.poll(0.1)
        if what == "open":
            member.connection.open(2, START)
        else:
            member.connection.drop(1)
    assert not second.owned
    assert member.owned == set(range(PARTITIONS))
    until(lambda: (member.poll(), second.poll(), len(second.owned) == 2)[2])
    second.connection.close()


def test_open_for_a_partition_that_went_away_is_harmless(kafka: Kafka, member: Member) -> None:
    second = Member(kafka).join()
    until(lambda: (member.poll(), second.poll(), len(second.owned) == 2)[2])
    gone = min(second.owned)
    member.connection.open(gone, START)
    fill(kafka, topic(kafka, "queue"), [b"x"], gone)
    second.connection.open(gone, START)
    second.awaits(b"x")
    assert not member.poll(0.2)
    second.connection.close()


def test_pause_holds_the_queue_and_lets_commands_through(kafka: Kafka, member: Member) -> None:
    member.connection.open(0, START)
    fill(kafka, topic(kafka, "queue"), [b"q%d" % n for n in range(5)])
    while len(member.got) < 2:
        member.got += member.connection.poll(1, 1)
    member.connection.pause(0)
    fill(kafka, topic(kafka, "commands"), [b"c"])
    before = len(member.values("queue"))
    member.awaits(b"c")
    assert len(member.values("queue")) == before
    member.connection.resume(0)
    member.awaits(b"q4")


@pytest.mark.timeout(60)
def test_the_end_of_a_paused_queue_is_known_although_nothing_is_fetched(kafka: Kafka, member: Member) -> None:
    member.connection.open(0, START)
    fill(kafka, topic(kafka, "queue"), [b"before"])
    member.awaits(b"before")
    member.connection.pause(0)

    def end() -> int:
        member.poll(0.1)
        seen = member.connection.queue_seen(0)
        return -1 if seen is None else seen[0]

    for more in (101, 201):  # a fetch that was on its way may bring the first end
        fill(kafka, topic(kafka, "queue"), [b"%d" % n for n in range(100)])
        while end() < more:
            pass
    assert member.values("queue") == [b"before"]


def test_a_paused_queue_goes_on_where_it_stopped(kafka: Kafka, member: Member) -> None:
    fill(kafka, topic(kafka, "queue"), [b"%d" % n for n in range(1000)])
    member.connection.open(0, START)
    while len(member.got) < 1000:
        member.got += member.connection.poll(5, 37)
        member.connection.pause(0)
        member.connection.resume(0)
    assert [r.offset() for r in member.got] == list(range(1000))


def test_drop_stops_every_input_of_a_partition_that_stays(kafka: Kafka, member: Member) -> None:
    member.connection.open(0, START)
    member.connection.open(1, START)
    member.connection.drop(0)
    fill(kafka, topic(kafka, "queue"), [b"dropped"], 0)
    fill(kafka, topic(kafka, "commands"), [b"dropped"], 0)
    fill(kafka, topic(kafka, "queue"), [b"kept"], 1)
    member.awaits(b"kept")
    assert not member.poll(0.3)
    assert member.owned == set(range(PARTITIONS))
    member.connection.open(0, START)
    member.awaits(b"dropped")


@pytest.mark.parametrize("kind", ["queue", "commands"])
def test_a_position_beyond_the_end_is_a_lost_input(kafka: Kafka, member: Member, kind: str) -> None:
    fill(kafka, topic(kafka, "queue", "orders"), [b"x"], 3)
    member.connection.open(2, Positions(**{"queue": 0, "commands": 0, kind: 500}))
    member.connection.open(3, START)
    with pytest.raises(InputLost, match=kind) as lost:
        until(lambda: (member.poll(), False)[1])
    assert lost.value.partition == 2
    member.connection.drop(2)
    member.awaits(b"x")


def test_a_position_below_the_log_start_is_a_lost_input(kafka: Kafka, member: Member) -> None:
    fill(kafka, topic(kafka, "queue"), [b"%d" % n for n in range(10)])
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    for future in admin.delete_records([TopicPartition(topic(kafka, "queue"), 0, 6)]).values():
        future.result()
    member.connection.open(0, Positions(3, None))
    with pytest.raises(InputLost, match="partition 0"):
        until(lambda: (member.poll(), False)[1])
    member.connection.close()
    member.join().owns(PARTITIONS)
    member.connection.open(0, START)  # the log's start is asked for, so it is found
    member.awaits(b"6", b"9")


def test_a_missing_destination_is_named_at_once_and_the_rest_commits(kafka: Kafka, member: Member) -> None:
    good, missing = topic(kafka, "queue", "billing"), topic(kafka, "queue", "nobody")
    began = perf_counter()
    with pytest.raises(DestinationFailed) as failed:
        member.connection.commit(
            [Out(good, 0, b"k", b"v"), Out(missing, 0, b"k", b"v"), member.state(b"a", b"1")], {0: 1}
        )
    assert failed.value.topics == {missing: "the topic does not exist"}
    assert perf_counter() - began < 2
    assert member.connection.commit([Out(good, 0, b"k", b"v"), member.state(b"a", b"2")], {0: 1}) == {0: 1}
    assert restored(member.connection.restore(0, None)) == [(b"a", b"2")]


def commit_until_decided(member: Member, outs: Sequence[Out]) -> None:
    """Do as a worker does: an Interrupted commit is committed again."""
    for _ in range(3):
        try:
            member.connection.commit(outs, {0: 1})
        except Interrupted:
            continue
        return


def test_a_partition_that_does_not_exist_is_named(kafka: Kafka, member: Member) -> None:
    there = topic(kafka, "queue", "billing")
    with pytest.raises(DestinationFailed, match=r"partition 9 of 4 does not exist|Unknown partition"):
        commit_until_decided(member, [Out(there, 9, b"k", b"v"), member.state(b"a", b"1")])
    assert member.connection.commit([member.state(b"a", b"1")], {0: 1})[0] > 0


def test_a_destination_deleted_while_in_use_is_named_and_the_producer_lives_on(kafka: Kafka, member: Member) -> None:
    there = topic(kafka, "queue", "billing")
    outs = [Out(there, 0, b"k", b"v"), member.state(b"a", b"1")]
    member.connection.commit(outs, {0: 1})
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.delete_topics([there])[there].result()
    with pytest.raises(DestinationFailed) as failed:
        commit_until_decided(member, outs)
    assert set(failed.value.topics) == {there}
    assert member.connection.commit([member.state(b"b", b"2")], {0: 1})[0] > 0
    assert [key for key, _ in restored(member.connection.restore(0, None))] == [b"a", b"b"]


def test_a_fenced_producer_is_in_doubt_and_its_partitions_are_lost(kafka: Kafka) -> None:
    first = Member(kafka, slot="7").join().owns(PARTITIONS)
    first.connection.commit([first.state(b"a", b"1")], {0: 1})
    usurper = KafkaConnection(kafka, "orders", slot="7")
    second = Member(kafka)
    usurper.join(second)
    with pytest.raises(InDoubt, match="slot"):
        first.connection.commit([first.state(b"a", b"2")], {0: 2})
    first.connection.close()
    assert first.told[-1][0] == "lost"
    usurper.close()
    again = first.join().owns(PARTITIONS)  # the same object may join anew
    assert restored(again.connection.restore(0, None)) == [(b"a", b"1")]
    assert again.connection.commit([again.state(b"a", b"3")], {0: 2})[0] > 1
    again.connection.close()


def test_a_recreated_queue_loses_its_inputs(kafka: Kafka, member: Member) -> None:
    ids = member.connection.topic_ids()
    assert set(ids) == {topic(kafka, kind) for kind in ("queue", "commands", "decisions", "state")}
    member.connection.open(0, START)
    watch = member.connection._watch
    assert watch is not None
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.delete_topics([topic(kafka, "commands")])[topic(kafka, "commands")].result()
    watch._due_at = 0
    with pytest.raises(InputLost, match="commands"):
        until(lambda: (member.poll(), False)[1])


def test_a_grown_topic_stops_the_worker(kafka: Kafka, member: Member) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    name = topic(kafka, "commands")
    admin.create_partitions([NewPartitions(name, PARTITIONS + 1)])[name].result()
    watch = member.connection._watch
    assert watch is not None
    watch._due_at = 0
    with pytest.raises(LogError, match="now has 5"):
        until(lambda: (member.poll(), False)[1])
    with pytest.raises(LogError, match="5 partitions, the catalog says 4"):
        KafkaConnection(kafka, "orders").join(member)


def test_a_service_that_was_never_applied_is_told_so(kafka: Kafka, member: Member) -> None:
    with pytest.raises(LogError, match="conversations apply"):
        KafkaConnection(kafka, "nobody").join(member)


def test_a_missing_kafka_is_told_within_ten_seconds(member: Member) -> None:
    began = perf_counter()
    with pytest.raises(KafkaUnreachable, match=r"127\.0\.0\.1:1\b"):
        KafkaConnection(Kafka("127.0.0.1:1"), "orders").join(member)
    assert perf_counter() - began < 10


def test_joining_while_requests_time_out_tells_whether_a_broker_is_there(kafka: Kafka, member: Member) -> None:
    """Without a controller, or a coordinator, a cluster answers little more than who it is."""

    class Unanswered(KafkaConnection):
        def _own_topics(self) -> dict[str, Topic]:
            raise KafkaUnreachable(self.kafka.bootstrap, "timed out waiting for the controller")

    with pytest.raises(KafkaNotReady, match="waiting for the controller"):
        Unanswered(kafka, "orders").join(member)
    with pytest.raises(KafkaUnreachable, match="cannot be reached"):
        Unanswered(Kafka("127.0.0.1:1"), "orders").join(member)


@pytest.mark.slow
def test_brokers_that_advertise_an_address_where_nobody_is_are_asked_about_it(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address that was given is right: it answers, and names another to go on at."""
    monkeypatch.setattr(logins, "AT_ONCE", 30.0)  # a busy machine may take longer than a second
    with (
        EmbeddedBroker(settings={"advertised.listeners": "PLAINTEXT://127.0.0.1:1"}) as broker,
        pytest.raises(KafkaNotReady, match=r"Are enough of its brokers up.*advertised\.listeners\) right\?"),
    ):
        KafkaConnection(Kafka(broker.bootstrap), "orders").join(member)


def test_the_catalog_knows_peers_and_learns_of_new_ones(kafka: Kafka, member: Member) -> None:
    assert member.connection.partitions("billing") == PARTITIONS
    assert member.connection.partitions("shipping") is None
    apply(kafka, [ServiceDeclaration("shipping")], 2, 1)
    until(lambda: member.connection.partitions("shipping") == 2)


def test_the_last_commit_fits_into_close(kafka: Kafka) -> None:
    first = Member(kafka).join().owns(PARTITIONS)
    first.on_revoked = lambda partitions: first.connection.commit(
        [first.state(b"clean", b"1", p) for p in partitions], dict.fromkeys(partitions, 3)
    )
    first.connection.close()
    second = Member(kafka).join().owns(PARTITIONS)
    restore = second.connection.restore(2, None)
    assert restored(restore) == [(b"clean", b"1")]
    assert restore.committed == 3
    second.connection.close()


def test_what_a_listener_raises_comes_out_of_poll_and_the_partition_still_goes(kafka: Kafka, member: Member) -> None:
    class Surprise(Exception):
        pass

    def refuse(_: Sequence[int]) -> None:
        raise Surprise

    for partition in range(PARTITIONS):
        member.connection.open(partition, START)
    member.on_revoked = refuse
    second = Member(kafka).join()
    with pytest.raises(Surprise):
        until(lambda: (member.poll(), second.poll(), False)[2])
    member.on_revoked = lambda _: None
    until(lambda: (member.poll(), second.poll(), len(second.owned) == 2)[2])
    inputs = member.connection._inputs
    assert inputs is not None
    assert len(inputs._consumer.assignment()) == 2 * 2
    second.connection.close()


def test_close_is_harmless_when_already_closed(kafka: Kafka) -> None:
    member = Member(kafka).join().owns(PARTITIONS)
    member.connection.close()
    assert member.told[-1] == ("revoked", [0, 1, 2, 3])
    member.connection.close()
    with pytest.raises(LogError, match="join first"):
        member.connection.poll(0, 1)


def test_a_request_nobody_answered_is_not_repeated_by_the_same_client() -> None:
    """The client's library may wait for ever for a broker it lost, while the cluster is well."""
    connection = KafkaConnection(Kafka("127.0.0.1:9"), "orders")
    before = connection._admin.client
    with pytest.raises(KafkaUnreachable):
        connection.topic_ids()
    assert connection._admin.client is not before


def test_a_commit_tells_when_the_log_has_it(member: Member) -> None:
    """By the broker's clock, in microseconds; here it is this machine's, told in whole milliseconds."""
    began = time_ns() // 1_000
    member.connection.commit([member.state(b"a", b"1")], {0: 0})
    told = member.connection.appended_at()
    assert told is not None
    assert began - 1_000 <= told <= time_ns() // 1_000
