"""What a worker may expect of ``ports.Connection`` and ``ports.Store``; every shell passes the same suite."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from uuid import uuid4

import pytest

from conversations.errors import DestinationFailed, Fenced, InputLost, KafkaUnreachable, LogError
from conversations.headers import read_headers
from conversations.ports import Connection, Out, Positions, Record, Restore, Store, Stores
from conversations.protocol.topics import ANY_PARTITION, COMMANDS, DECISIONS, QUEUE, partition_of
from tests.support import waiting

PARTITIONS = 4
START = Positions(None, None)
PATIENCE = 40.0
"""Seconds that a shell may take to do what it was asked."""
until = partial(waiting.until, seconds=PATIENCE, pause=0)


class Member:
    """One worker's log, and a listener that keeps books."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.owned: set[int] = set()
        self.told: list[str] = []
        self.got: list[Record] = []
        self.on_revoked: Callable[[Sequence[int]], object] = lambda _: None
        connection.join(self)

    def assigned(self, partitions: Sequence[int]) -> None:
        self.owned |= set(partitions)
        self.told.append("assigned")

    def revoked(self, partitions: Sequence[int]) -> None:
        self.told.append("revoked")
        self.on_revoked(partitions)
        self.owned -= set(partitions)

    def lost(self, partitions: Sequence[int]) -> None:
        self.told.append("lost")
        self.owned -= set(partitions)

    def poll(self, limit: int = 1000) -> Sequence[Record]:
        records = self.connection.poll(0.01, limit)
        assert len(records) <= limit
        self.got += records
        return records

    def owns(self, count: int = PARTITIONS) -> "Member":
        until(lambda: (self.poll(), len(self.owned) == count)[1])
        return self

    def awaits(self, *values: bytes) -> None:
        """Poll until these values arrived, in this order, and nothing else did."""
        until(lambda: (self.poll(), len(self.got) >= len(values))[1])
        assert self.values() == list(values)

    def values(self) -> list[bytes | None]:
        return [record.value() for record in self.got]

    def stays_quiet(self) -> None:
        for _ in range(20):
            assert not self.poll()


def restored(restore: Restore, limit: int = 1000) -> list[tuple[bytes, bytes | None]]:
    rows: list[tuple[bytes, bytes | None]] = []

    def is_done() -> bool:
        part = restore.advance(limit)
        assert len(part.rows) <= limit
        rows.extend(part.rows)
        return part.done

    until(is_done)
    restore.close()
    restore.close()
    return rows


class World(ABC):
    """A fresh namespace with the services "orders" and "billing"."""

    @abstractmethod
    def connect(self, service: str = "orders") -> Connection:
        """Make another connection to the topics of a service."""

    @abstractmethod
    def connect_mortal(self) -> Connection:
        """Make a connection whose member is soon given up on when it does not poll."""

    @abstractmethod
    def give_up_on(self, member: Member) -> None:
        """Let a mortal member's time run out, or say that waiting does."""

    @abstractmethod
    def append(self, kind: str, partition: int, *values: bytes) -> None:
        """Append records with key "k" to a topic of "orders"."""

    @abstractmethod
    def append_unreadable(self, kind: str, partition: int) -> None:
        """Append a record with key "k" and value "v" whose only header has the bytes ff fe for a name."""

    @abstractmethod
    def read(self, service: str, kind: str, partition: int) -> list[bytes]:
        """What a consumer of committed records sees of a topic."""

    @abstractmethod
    def create(self, service: str, partitions: int) -> None:
        """Make a service, as its deployment does."""

    @abstractmethod
    def topic(self, kind: str, service: str = "orders") -> str:
        """Name of a topic."""

    @abstractmethod
    def create_plain(self, topic: str, partitions: int) -> None:
        """Create a topic that does not belong to the namespace."""

    @abstractmethod
    def read_topic(self, topic: str, partition: int) -> list[bytes]:
        """What a consumer of committed records sees of any topic."""

    def member(self) -> Member:
        return Member(self.connect())

    def state(self, key: bytes, value: bytes | None, partition: int = 0) -> Out:
        return Out(self.topic("state"), partition, key, value)


ONE_THREAD: dict[str, Callable[[Connection], object]] = {
    "poll": lambda connection: connection.poll(0, 1),
    "open": lambda connection: connection.open(0, START),
    "pause": lambda connection: connection.pause(0),
    "resume": lambda connection: connection.resume(0),
    "pause commands": lambda connection: connection.pause(0, COMMANDS),
    "resume commands": lambda connection: connection.resume(0, COMMANDS),
    "pause decisions": lambda connection: connection.pause(0, DECISIONS),
    "resume decisions": lambda connection: connection.resume(0, DECISIONS),
    "drop": lambda connection: connection.drop(0),
    "commit": lambda connection: connection.commit([], {0: 0}),
    "queue_read_to": lambda connection: connection.read_to(QUEUE, 0),
    "commands_read_to": lambda connection: connection.read_to(COMMANDS, 0),
    "decisions_read_to": lambda connection: connection.read_to(DECISIONS, 0),
}
"""What only the thread that joined may call, and nobody before it joined or after it closed."""
ANY_THREAD: dict[str, Callable[[Connection], object]] = {
    "partitions": lambda connection: connection.partitions("billing"),
    "look_at_catalog": lambda connection: connection.look_at_catalog(),
    "schemas": lambda connection: connection.schemas(),
    "topic_ids": lambda connection: connection.topic_ids(),
    "unwritable": lambda connection: connection.unwritable([]),
    "queue_end": lambda connection: connection.end(QUEUE, 0),
    "commands_end": lambda connection: connection.end(COMMANDS, 0),
    "decisions_end": lambda connection: connection.end(DECISIONS, 0),
}
"""What asks for topics only."""


def answered(name: str, connection: Connection) -> None:
    """Ask until Kafka answers: a look at the catalog waits for two seconds only, however slow the machine is."""

    def asked() -> bool:
        try:
            ANY_THREAD[name](connection)
        except KafkaUnreachable:
            return False
        return True

    waiting.until(asked, "Kafka answers", 30)


def elsewhere(call: Callable[[], object]) -> BaseException | None:
    """What a call raises in another thread."""
    raised: list[BaseException | None] = []

    def run() -> None:
        try:
            call()
        except (LogError, RuntimeError) as failure:
            raised.append(failure)
        else:
            raised.append(None)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(PATIENCE)
    (failure,) = raised
    return failure


def _looked(connection: Connection) -> bool:
    """Look at the catalog; a busy broker may not answer in the short time that a look has."""
    try:
        connection.look_at_catalog()
    except KafkaUnreachable:
        return False
    return True


class ConnectionContract:
    """The laws of a log. A shell's test module subclasses it and supplies the fixture ``world``."""

    @pytest.fixture
    def member(self, world: World) -> Member:
        return world.member().owns()

    def test_a_lone_member_is_assigned_every_partition(self, member: Member) -> None:
        """Partitions arrive through the listener, from inside poll."""
        assert member.owned == {0, 1, 2, 3}
        assert "revoked" not in member.told
        member.connection.close()

    def test_nothing_flows_before_the_partition_is_opened(self, world: World, member: Member) -> None:
        """A partition arrives with its inputs paused, so that its state can be restored first."""
        world.append("queue", 0, b"1")
        member.stays_quiet()
        member.connection.open(0, START)
        member.awaits(b"1")
        member.connection.close()

    def test_inputs_flow_from_the_positions_asked_for(self, world: World, member: Member) -> None:
        """A position is the offset of the next record; without one the topic is read from its start."""
        world.append("queue", 1, b"q0", b"q1", b"q2")
        world.append("commands", 1, b"c0", b"c1")
        member.connection.open(1, Positions(2, 1))
        until(lambda: (member.poll(), len(member.got) >= 2)[1])
        assert sorted(member.values(), key=str) == [b"c1", b"q2"]
        assert {(record.topic(), record.offset()) for record in member.got} == {
            (world.topic("queue"), 2), (world.topic("commands"), 1),
        }  # fmt: skip
        member.connection.close()

    def test_a_record_brings_everything_a_worker_asks_for(self, world: World, member: Member) -> None:
        """Topic, partition, offset, key, value, and the time it was appended."""
        world.append("queue", 2, b"v")
        member.connection.open(2, START)
        member.awaits(b"v")
        (record,) = member.got
        assert (record.topic(), record.partition(), record.offset()) == (world.topic("queue"), 2, 0)
        assert (record.key(), record.value()) == (b"k", b"v")
        kind, at = record.timestamp()
        assert kind == 2, "not LogAppendTime"
        assert at > 0
        member.connection.close()

    def test_poll_returns_at_most_its_limit_and_loses_nothing(self, world: World, member: Member) -> None:
        """What is over the limit comes with the next poll, in order."""
        values = [b"%d" % n for n in range(10)]
        world.append("queue", 0, *values)
        member.connection.open(0, START)
        until(lambda: (member.poll(limit=3), len(member.got) >= 10)[1])
        assert member.values() == values
        member.connection.close()

    def test_a_commit_is_visible_as_a_whole(self, world: World, member: Member) -> None:
        """Outputs, state rows and positions of one step appear together."""
        outs = [
            Out(world.topic("queue", "billing"), 3, b"k", b"to billing", [("dialog", b"h")]),
            Out(world.topic("dead-letter"), 0, b"k", b"letter"),
            world.state(b"a", b"1"),
            world.state(b"b", b"2", 1),
        ]
        ends = member.connection.commit(outs, {0: 7, 1: 9})
        assert ends.keys() == {0, 1}
        assert world.read("billing", "queue", 3) == [b"to billing"]
        assert world.read("orders", "dead-letter", 0) == [b"letter"]
        for partition, row, position in ((0, (b"a", b"1"), 7), (1, (b"b", b"2"), 9)):
            restore = member.connection.restore(partition, None)
            assert restored(restore) == [row]
            assert restore.committed == position
        member.connection.close()

    def test_a_commit_without_offsets_is_a_bug(self, world: World, member: Member) -> None:
        """Nothing would fence it, so a member that lost its partitions could commit."""
        with pytest.raises(ValueError, match="offset"):
            member.connection.commit([world.state(b"a", b"1")], {})
        member.connection.close()

    def test_a_commit_of_offsets_alone_moves_them(self, member: Member) -> None:
        """Records that cause nothing are still read only once."""
        assert dict(member.connection.commit([], {2: 5})) == {}
        restore = member.connection.restore(2, None)
        restored(restore)
        assert restore.committed == 5
        member.connection.close()

    def test_the_offset_a_commit_returns_is_where_the_next_restore_begins(self, world: World, member: Member) -> None:
        """A local copy with these rows applied is complete up to there."""
        end = member.connection.commit([world.state(b"a", b"1")], {0: 1})[0]
        member.connection.commit([world.state(b"b", b"2")], {0: 1})
        assert restored(member.connection.restore(0, end)) == [(b"b", b"2")]
        member.connection.close()

    def test_restore_sees_exactly_the_committed_rows_in_order(self, world: World, member: Member) -> None:
        """Slices of any size add up to every committed row; a deletion is a row without a value."""
        for number in range(5):
            member.connection.commit(
                [world.state(b"%d" % number, b"v"), world.state(b"last", b"%d" % number)], {0: number}
            )
        member.connection.commit([world.state(b"2", None)], {0: 5})
        with pytest.raises(DestinationFailed):
            member.connection.commit(
                [world.state(b"never", b"v"), Out(world.topic("queue", "nobody"), 0, b"k", b"v")], {0: 6}
            )
        expected: list[tuple[bytes, bytes | None]] = []
        for number in range(5):
            expected += [(b"%d" % number, b"v"), (b"last", b"%d" % number)]
        for limit in (3, 1000):
            assert restored(member.connection.restore(0, None), limit) == [*expected, (b"2", None)]
        member.connection.close()

    def test_restore_of_an_untouched_partition_is_empty(self, member: Member) -> None:
        """No rows, and no committed position."""
        restore = member.connection.restore(3, None)
        assert restored(restore) == []
        assert restore.committed is None
        member.connection.close()

    def test_a_record_without_a_partition_goes_where_its_key_belongs(self, world: World, member: Member) -> None:
        """Of a plain topic, and where Kafka's Java client would put it; without a key it goes anywhere."""
        topic = f"plain-{uuid4().hex}"
        world.create_plain(topic, 5)
        keys = [b"", *(b"key-%d" % n for n in range(20)), "ä".encode()]
        outs = [Out(topic, ANY_PARTITION, key, key or b"empty", [("n", b"1")]) for key in keys]
        member.connection.commit([*outs, Out(topic, ANY_PARTITION, None, b"keyless"), world.state(b"a", b"1")], {0: 1})
        found = {partition: world.read_topic(topic, partition) for partition in range(5)}
        placed = {value: partition for partition, values in found.items() for value in values if value != b"keyless"}
        assert placed == {key or b"empty": partition_of(key, 5) for key in keys}
        assert sum(values.count(b"keyless") for values in found.values()) == 1
        member.connection.close()

    def test_topics_that_cannot_be_written_to_are_named(self, world: World, member: Member) -> None:
        there, missing = f"plain-{uuid4().hex}", f"plain-{uuid4().hex}"
        world.create_plain(there, 1)
        assert member.connection.unwritable([there, missing]).keys() == {missing}
        with pytest.raises(DestinationFailed) as failed:
            member.connection.commit([Out(missing, ANY_PARTITION, b"k", b"v"), world.state(b"a", b"1")], {0: 1})
        assert failed.value.topics.keys() == {missing}
        member.connection.close()

    def test_a_failed_destination_is_named_and_the_rest_commits(self, world: World, member: Member) -> None:
        """One bad destination must not kill every dialog, and nothing of the failed attempt is seen."""
        good, bad = world.topic("queue", "billing"), world.topic("queue", "nobody")
        outs = [Out(good, 0, b"k", b"good"), Out(bad, 0, b"k", b"bad"), world.state(b"a", b"1")]
        with pytest.raises(DestinationFailed) as failed:
            member.connection.commit(outs, {0: 1})
        assert failed.value.topics.keys() == {bad}
        assert world.read("billing", "queue", 0) == []
        member.connection.commit([outs[0], outs[2]], {0: 1})
        assert world.read("billing", "queue", 0) == [b"good"]
        assert restored(member.connection.restore(0, None)) == [(b"a", b"1")]
        member.connection.close()

    def test_a_member_that_was_given_up_on_cannot_commit(self, world: World) -> None:
        """Not even a step that moves no position; its next poll tells it what it has lost."""
        zombie = Member(world.connect_mortal()).owns()
        world.give_up_on(zombie)
        heir = world.member().owns()
        with pytest.raises(Fenced):
            zombie.connection.commit([world.state(b"a", b"zombie")], {0: 0})
        heir.connection.commit([world.state(b"a", b"heir")], {0: 0})
        assert restored(heir.connection.restore(0, None)) == [(b"a", b"heir")]
        until(lambda: (zombie.poll(), heir.poll(), "lost" in zombie.told)[2])
        zombie.connection.close()
        heir.connection.close()

    def test_a_revoked_member_commits_once_more_and_hands_over(self, world: World, member: Member) -> None:
        """Inside ``revoked`` the partitions are still owned; what is committed there the heir restores."""

        def last_words(partitions: Sequence[int]) -> None:
            outs = [world.state(b"row", b"%d" % partition, partition) for partition in partitions]
            member.connection.commit(outs, dict.fromkeys(partitions, 3))

        member.on_revoked = last_words
        second = world.member()
        until(lambda: (member.poll(), second.poll(), len(second.owned) == 2)[2])
        for partition in second.owned:
            restore = second.connection.restore(partition, None)
            assert restored(restore) == [(b"row", b"%d" % partition)]
            assert restore.committed == 3
        assert "lost" not in member.told
        second.connection.close()
        member.connection.close()

    def test_a_partition_given_away_flows_no_more(self, world: World, member: Member) -> None:
        """What the heir opens, it alone reads."""
        for partition in range(PARTITIONS):
            member.connection.open(partition, START)
        second = world.member()
        until(lambda: (member.poll(), second.poll(), len(second.owned) == 2)[2])
        moved = min(second.owned)
        second.connection.open(moved, START)
        world.append("queue", moved, b"for the heir")
        second.awaits(b"for the heir")
        member.stays_quiet()
        assert member.values() == []
        second.connection.close()
        member.connection.close()

    def test_a_member_that_closes_leaves_everything_to_the_others(self, world: World, member: Member) -> None:
        """Closing tells the listener and hands the partitions over."""
        second = world.member()
        until(lambda: (member.poll(), second.poll(), len(second.owned) == 2)[2])
        member.connection.close()
        assert not member.owned
        second.owns()
        second.connection.close()
        second.connection.close()

    def test_paused_queues_wait_while_commands_go_on(self, world: World, member: Member) -> None:
        """Back-pressure holds the queue of one partition and nothing else."""
        member.connection.open(0, START)
        member.connection.pause(0)
        world.append("queue", 0, b"q0", b"q1")
        world.append("commands", 0, b"c0")
        member.awaits(b"c0")
        member.stays_quiet()
        member.connection.resume(0)
        member.awaits(b"c0", b"q0", b"q1")
        member.connection.close()

    def test_paused_commands_wait_while_the_queue_goes_on(self, world: World, member: Member) -> None:
        """As many as wait for their turn are in memory, and no more."""
        member.connection.open(0, START)
        member.connection.pause(0, COMMANDS)
        world.append("commands", 0, b"c0", b"c1")
        world.append("queue", 0, b"q0")
        member.awaits(b"q0")
        member.stays_quiet()
        member.connection.resume(0, COMMANDS)
        member.awaits(b"q0", b"c0", b"c1")
        until(lambda: (member.poll(), member.connection.read_to(COMMANDS, 0) == member.connection.end(COMMANDS, 0))[1])
        member.connection.close()

    def test_decisions_are_an_input_of_their_own(self, world: World, member: Member) -> None:
        """They are read from their own position, and can be paused while the others go on."""
        world.append("decisions", 0, b"d0", b"d1")
        member.connection.open(0, Positions(0, 0, 1))
        member.awaits(b"d1")
        until(lambda: (member.poll(), member.connection.read_to(DECISIONS, 0) == 2)[1])
        assert member.connection.end(DECISIONS, 0) == 2
        assert member.connection.read_to(COMMANDS, 0) == 0
        member.connection.pause(0, DECISIONS)
        world.append("decisions", 0, b"d2")
        world.append("queue", 0, b"q0")
        member.awaits(b"d1", b"q0")
        member.stays_quiet()
        member.connection.resume(0, DECISIONS)
        member.awaits(b"d1", b"q0", b"d2")
        member.connection.close()

    def test_a_decision_passes_what_has_arrived_before_it(self, world: World, member: Member) -> None:
        """An operator turns a queue off just when it is long."""
        many = [b"%d" % number for number in range(3_000)]
        world.append("queue", 0, *many)
        world.append("commands", 0, *many)
        member.connection.open(0, START)
        until(lambda: (member.poll(2), len(member.got) >= 10)[1])
        world.append("decisions", 0, b"off")
        until(lambda: (member.poll(2), b"off" in member.values())[1])
        assert len(member.got) < 6_000
        until(lambda: (member.poll(), len(member.got) == 6_001)[1])
        assert sorted(member.values(), key=bytes) == sorted([*many, *many, b"off"])  # type: ignore[arg-type]  # all have values
        member.connection.close()

    def test_decisions_of_a_dropped_partition_are_not_read(self, world: World, member: Member) -> None:
        member.connection.open(0, START)
        member.connection.open(1, START)
        world.append("decisions", 0, b"d0")
        member.awaits(b"d0")
        member.connection.drop(0)
        world.append("decisions", 0, b"d1")
        world.append("decisions", 1, b"d2")
        member.awaits(b"d0", b"d2")
        member.stays_quiet()
        member.connection.open(0, Positions(0, 0, 1))
        member.awaits(b"d0", b"d2", b"d1")
        member.connection.close()

    def test_a_dropped_partition_is_silent_and_the_others_flow(self, world: World, member: Member) -> None:
        """A partition that is set aside for a human does not stop its neighbours."""
        member.connection.open(0, START)
        member.connection.open(1, START)
        member.connection.drop(0)
        world.append("queue", 0, b"0")
        world.append("queue", 1, b"1")
        member.awaits(b"1")
        member.stays_quiet()
        member.connection.close()

    def test_a_position_beyond_the_end_is_lost_input(self, world: World, member: Member) -> None:
        """An offset the topic never had means another topic: a human must look."""
        world.append("queue", 0, b"only one")

        def read() -> None:
            member.connection.open(0, Positions(40, None))
            until(lambda: (member.poll(), False)[1])

        with pytest.raises(InputLost) as lost:
            read()
        assert lost.value.partition == 0
        member.connection.close()

    def test_the_catalog_knows_partition_counts(self, member: Member) -> None:
        """None for a service that nobody has created."""
        assert member.connection.partitions("orders") == PARTITIONS
        assert member.connection.partitions("billing") == PARTITIONS
        assert member.connection.partitions("nobody") is None
        member.connection.close()

    def test_a_service_that_is_new_is_known_once_the_catalog_was_looked_at(self, world: World, member: Member) -> None:
        """However short ago it was asked for in vain."""
        assert member.connection.partitions("shipping") is None
        world.create("shipping", 2)
        waiting.until(partial(_looked, member.connection), seconds=60)
        assert member.connection.partitions("shipping") == 2
        member.connection.close()

    def test_topics_have_identities(self, world: World, member: Member) -> None:
        """Of the queue, the commands, the decisions and the state; the same for every member, another for every topic."""
        ids = member.connection.topic_ids()
        assert ids.keys() == {world.topic(kind) for kind in ("queue", "commands", "decisions", "state")}
        assert len(set(ids.values())) == 4
        assert world.connect().topic_ids() == ids
        member.connection.close()

    def test_the_end_of_a_queue_counts_what_is_there(self, world: World, member: Member) -> None:
        """A tick may only count when nothing is left to read."""
        assert member.connection.end(QUEUE, 0) == 0
        world.append("queue", 0, b"0", b"1")
        assert member.connection.end(QUEUE, 0) == 2
        assert member.connection.end(QUEUE, 1) == 0
        assert member.connection.end(COMMANDS, 0) == 0
        world.append("commands", 0, b"0")
        assert (member.connection.end(QUEUE, 0), member.connection.end(COMMANDS, 0)) == (2, 1)
        member.connection.close()

    def test_what_was_read_reaches_the_end_whatever_hides_there(self, world: World, member: Member) -> None:
        """Markers of transactions are never given out, and still time may pass behind them."""
        member.connection.open(0, Positions(None, None))
        queue = world.topic("queue")
        member.connection.commit([Out(queue, 0, b"k", b"1"), Out(queue, 0, b"k", b"2")], {0: 0})
        member.awaits(b"1", b"2")
        until(lambda: (member.poll(), member.connection.read_to(QUEUE, 0) == member.connection.end(QUEUE, 0))[1])
        assert member.connection.read_to(QUEUE, 0) >= 2
        member.connection.close()

    def test_what_was_read_of_commands_is_known_by_itself(self, world: World, member: Member) -> None:
        member.connection.open(0, Positions(None, None))
        commands = world.topic("commands")
        member.connection.commit([Out(commands, 0, b"k", b"1")], {0: 0})
        member.awaits(b"1")
        until(lambda: (member.poll(), member.connection.read_to(COMMANDS, 0) == member.connection.end(COMMANDS, 0))[1])
        assert member.connection.read_to(COMMANDS, 0) >= 1
        assert member.connection.read_to(QUEUE, 0) == 0
        member.connection.close()

    # -- restrictions -------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("name", ONE_THREAD)
    def test_only_the_thread_that_joined_uses_the_log(self, member: Member, name: str) -> None:
        """The client's consumer stands still behind a poll in another thread: a mistake is told, not waited for."""
        member.connection.open(0, START)
        failure = elsewhere(lambda: ONE_THREAD[name](member.connection))
        assert isinstance(failure, RuntimeError)
        assert "thread" in str(failure)
        member.connection.close()

    def test_only_the_thread_that_joined_closes_the_log(self, member: Member) -> None:
        """It is still a member then; closed, it may be closed by anybody."""
        assert isinstance(elsewhere(member.connection.close), RuntimeError)
        member.poll()
        member.connection.close()
        assert elsewhere(member.connection.close) is None

    @pytest.mark.parametrize("name", ANY_THREAD)
    def test_topics_are_asked_for_in_any_thread_joined_or_not(self, world: World, member: Member, name: str) -> None:
        """Handlers need the partitions of others to send to them."""
        assert elsewhere(lambda: answered(name, member.connection)) is None
        member.connection.close()
        answered(name, member.connection)
        answered(name, world.connect())

    @pytest.mark.parametrize("name", ONE_THREAD)
    def test_nothing_is_done_before_a_log_joined_or_after_it_closed(
        self, world: World, member: Member, name: str
    ) -> None:
        """It says what to do."""
        with pytest.raises(LogError, match="join first"):
            ONE_THREAD[name](world.connect())
        member.connection.close()
        with pytest.raises(LogError, match="join first"):
            ONE_THREAD[name](member.connection)

    def test_a_log_joins_once_and_again_when_it_was_closed(self, member: Member) -> None:
        """A second connection of one object would never be closed."""
        with pytest.raises(RuntimeError, match="joined already"):
            member.connection.join(member)
        member.connection.close()
        member.connection.join(member)
        member.owns()
        member.connection.close()

    def test_a_service_without_topics_is_not_joined(self, world: World) -> None:
        """Nor described."""
        connection = world.connect("nobody")
        with pytest.raises(LogError, match="nobody"):
            Member(connection)
        with pytest.raises(LogError, match="nobody"):
            connection.topic_ids()
        with pytest.raises(LogError):
            connection.end(QUEUE, 0)
        connection.close()

    def test_what_is_not_owned_is_not_opened(self, world: World, member: Member) -> None:
        """It was taken away since its state was asked for; its heir reads it."""
        second = world.member()
        until(lambda: (member.poll(), second.poll(), len(second.owned) == 2)[2])
        moved = min(second.owned)
        member.connection.open(moved, START)
        second.connection.open(moved, START)
        world.append("queue", moved, b"for the heir")
        second.awaits(b"for the heir")
        member.stays_quiet()
        second.connection.close()
        member.connection.close()

    def test_what_is_not_open_is_paused_resumed_and_dropped_without_harm(self, world: World, member: Member) -> None:
        """Also what is dropped, and then let flow again."""
        for call in (member.connection.pause, member.connection.resume, member.connection.drop):
            call(0)
        member.connection.open(0, START)
        member.connection.drop(0)
        for call in (member.connection.pause, member.connection.resume, member.connection.drop):
            call(0)
        world.append("queue", 0, b"1")
        member.stays_quiet()
        member.connection.close()

    def test_a_partition_flows_again_from_wherever_it_is_opened(self, world: World, member: Member) -> None:
        """Dropped or not, paused or not, and though more of it was fetched before."""
        values = [b"%d" % n for n in range(50)]
        world.append("queue", 0, *values)
        world.append("commands", 0, b"c0", b"c1", b"c2")
        for position, drop in ((0, False), (7, True), (3, True), (9, False)):
            member.connection.open(0, Positions(position, position and 2))
            until(lambda: (member.poll(limit=5), len(member.got) >= 2)[1])
            if drop:
                member.connection.drop(0)
                member.stays_quiet()
            else:
                member.connection.pause(0)
            member.got.clear()
        member.connection.open(0, Positions(20, 1))
        until(lambda: (member.poll(), len(member.got) >= 32)[1])
        member.stays_quiet()
        found = [(record.topic(), record.value()) for record in member.got]
        assert [value for topic, value in found if topic == world.topic("queue")] == values[20:]
        assert [value for topic, value in found if topic == world.topic("commands")] == [b"c1", b"c2"]
        member.connection.close()

    def test_what_was_read_is_not_known_before_the_end_was_reached(self, world: World, member: Member) -> None:
        """Nor, when it is opened anew, of what flows from there."""
        world.append("queue", 0, b"0", b"1")
        assert member.connection.read_to(QUEUE, 0) == 0
        for _ in range(2):
            member.connection.open(0, START)
            assert member.connection.read_to(QUEUE, 0) == 0
            member.awaits(b"0", b"1")
            until(lambda: (member.poll(), member.connection.read_to(QUEUE, 0) == 2)[1])
            member.got.clear()
        member.connection.drop(0)
        assert member.connection.read_to(QUEUE, 0) == 0
        member.connection.close()

    def test_a_record_too_large_to_be_sent_names_its_topic(self, world: World, member: Member) -> None:
        """The rest commits without it."""
        topic = world.topic("queue", "billing")
        with pytest.raises(DestinationFailed) as failed:
            member.connection.commit([Out(topic, 0, b"k", bytes(2_000_001)), world.state(b"a", b"1")], {0: 1})
        assert [(at, found.topic) for at, found in failed.value.records.items()] == [(0, topic)]
        member.connection.commit([world.state(b"a", b"1")], {0: 1})
        assert restored(member.connection.restore(0, None)) == [(b"a", b"1")]
        member.connection.close()

    def test_headers_that_cannot_be_read_raise_when_they_are_asked_for(self, world: World, member: Member) -> None:
        """And only once: the second question ends the process. The rest of the record is there."""
        member.connection.open(0, START)
        world.append_unreadable("queue", 0)
        member.awaits(b"v")
        with pytest.raises(SystemError):
            member.got[0].headers()
        member.connection.close()

    def test_headers_are_read_or_not_however_often_others_were_read(self, world: World, member: Member) -> None:
        """Python asks otherwise once it has asked often, and then does not notice what the client raises."""
        member.connection.open(0, START)
        for _ in range(20):
            world.append("queue", 0, b"v", b"v", b"v")
            world.append_unreadable("queue", 0)
        until(lambda: (member.poll(), len(member.got) == 80)[1])
        assert [read_headers(record) for record in member.got] == [[], [], [], None] * 20
        member.connection.close()


class StoreContract:
    """The laws of a store. A shell's test module subclasses it and supplies the fixture ``stores``."""

    @pytest.fixture
    def store(self, stores: Stores) -> Store:
        return stores.open(0, "topic-id")

    def test_a_new_store_is_to_be_built(self, store: Store) -> None:
        """No checkpoint, no rows."""
        assert store.checkpoint() is None
        assert store.get(b"Ea") is None
        assert list(store.scan(b"")) == []
        store.close()

    def test_rows_and_checkpoint_are_written_together(self, store: Store) -> None:
        """A value replaces, None deletes, the checkpoint is the last one given."""
        store.apply([(b"Ea", b"1"), (b"Eb", b"2"), (b"Ec", b"3")], 3)
        store.apply([(b"Ea", b"10"), (b"Eb", None), (b"Ed", None)], 9)
        assert store.checkpoint() == 9
        assert [store.get(key) for key in (b"Ea", b"Eb", b"Ec", b"Ed")] == [b"10", None, b"3", None]
        store.close()

    def test_a_row_may_be_empty(self, store: Store) -> None:
        """Empty is not deleted."""
        store.apply([(b"Ea", b"")], 1)
        assert store.get(b"Ea") == b""
        assert list(store.scan(b"E")) == [(b"Ea", b"")]
        store.close()

    def test_the_last_write_of_a_batch_wins(self, store: Store) -> None:
        """A batch is in order."""
        store.apply([(b"Ea", b"1"), (b"Ea", None), (b"Ea", b"3"), (b"Eb", b"1"), (b"Eb", None)], 1)
        assert list(store.scan(b"E")) == [(b"Ea", b"3")]
        store.close()

    def test_a_scan_is_its_prefix_in_key_order(self, store: Store) -> None:
        """Keys compare as bytes; neighbours of the prefix are not seen."""
        keys = [b"D\xff", b"E", b"E\x00", b"Ea", b"E\xff\xff", b"F"]
        store.apply([(key, key) for key in reversed(keys)], 1)
        assert [key for key, _ in store.scan(b"E")] == keys[1:5]
        assert [key for key, _ in store.scan(b"")] == keys
        assert [key for key, _ in store.scan(b"E\xff")] == [b"E\xff\xff"]
        assert list(store.scan(b"X")) == []
        store.close()

    def test_a_run_of_rows_ends_before_the_first_missing_row(self, store: Store) -> None:
        keys = [b"P" + bytes([number]) for number in range(6)]
        store.apply([(key, key) for key in keys if key != keys[4]] + [(b"Q", b"")], 1)
        assert list(store.read_run(keys)) == keys[:4]
        assert list(store.read_run(keys[1:3])) == keys[1:3]
        assert list(store.read_run(keys[4:])) == []
        assert list(store.read_run(keys[5:])) == keys[5:]
        store.close()

    def test_a_scan_sees_the_rows_as_of_the_call(self, store: Store) -> None:
        """Writing while reading changes the next scan, not this one."""
        store.apply([(b"Ea", b"1"), (b"Eb", b"2")], 1)
        scan = store.scan(b"E")
        store.apply([(b"Ea", None), (b"Eb", b"20"), (b"Ec", b"3")], 2)
        assert list(scan) == [(b"Ea", b"1"), (b"Eb", b"2")]
        assert list(store.scan(b"E")) == [(b"Eb", b"20"), (b"Ec", b"3")]
        store.close()

    def test_clear_forgets_everything(self, store: Store) -> None:
        """The checkpoint too: an empty copy that claims to be complete would lose every row."""
        store.apply([(b"Ea", b"1")], 5)
        store.clear()
        assert store.checkpoint() is None
        assert list(store.scan(b"")) == []
        store.apply([(b"Eb", b"2")], 1)
        assert list(store.scan(b"")) == [(b"Eb", b"2")]
        store.close()

    def test_partitions_are_apart(self, stores: Stores) -> None:
        """Each has its own rows."""
        first, second = stores.open(1, "id"), stores.open(2, "id")
        first.apply([(b"Ea", b"1")], 1)
        assert second.get(b"Ea") is None
        first.close()
        second.close()

    def test_another_topic_begins_anew(self, stores: Stores) -> None:
        """A copy of a topic that was re-created is worth nothing."""
        first = stores.open(1, "before")
        first.apply([(b"Ea", b"1")], 1)
        first.close()
        second = stores.open(1, "after")
        assert second.checkpoint() is None
        assert second.get(b"Ea") is None
        second.close()
