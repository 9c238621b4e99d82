"""The contract on the log and the store in memory."""

import pytest

from conversations.memory.broker import MemoryBroker
from conversations.memory.clock import ManualClock
from conversations.memory.connection import MemoryConnection
from conversations.ports import Connection, Out, Stores
from conversations.protocol.topics import ANY_PARTITION, service_topic
from conversations.stores.memory import MemoryStores
from conversations.testing.broker import FaultyBroker
from conversations.testing.connection import FaultyConnection
from conversations.testing.faults import Chance
from tests.contracts.connection_contract import PARTITIONS, START, ConnectionContract, Member, StoreContract, World


class MemoryWorld(World):
    def __init__(self, broker: MemoryBroker) -> None:
        self.broker = broker
        for service in ("orders", "billing"):
            broker.create_service(service, PARTITIONS)

    def connect(self, service: str = "orders") -> Connection:
        return MemoryConnection(self.broker, service)

    def connect_mortal(self) -> Connection:
        return self.connect()

    def give_up_on(self, member: Member) -> None:
        assert isinstance(member.connection, MemoryConnection)
        self.broker.groups["orders"].release(member.connection)

    def append(self, kind: str, partition: int, *values: bytes) -> None:
        for value in values:
            self.broker.append(Out(self.topic(kind), partition, b"k", value))

    def append_unreadable(self, kind: str, partition: int) -> None:
        self.broker.append(Out(self.topic(kind), partition, b"k", b"v", [("\udcff\udcfe", b"x")]))

    def read(self, service: str, kind: str, partition: int) -> list[bytes]:
        return self.read_topic(self.topic(kind, service), partition)

    def create_plain(self, topic: str, partitions: int) -> None:
        self.broker.create_topic(topic, partitions)

    def read_topic(self, topic: str, partition: int) -> list[bytes]:
        return [record.value() or b"" for record in self.broker.topics[topic][partition] if record.visible]

    def create(self, service: str, partitions: int) -> None:
        self.broker.create_service(service, partitions)

    def topic(self, kind: str, service: str = "orders") -> str:
        return service_topic(self.broker.namespace, service, kind)


class FaultyWorld(MemoryWorld):
    def __init__(self, broker: FaultyBroker) -> None:
        super().__init__(broker)
        self.faulty = broker

    def connect(self, service: str = "orders") -> Connection:
        return FaultyConnection(self.faulty, service)


class TestMemoryConnection(ConnectionContract):
    @pytest.fixture
    def world(self) -> World:
        return MemoryWorld(MemoryBroker(ManualClock(1_000_000)))


class TestFaultyConnectionWithoutFaults(ConnectionContract):
    @pytest.fixture
    def world(self) -> World:
        return FaultyWorld(FaultyBroker(ManualClock(1_000_000), Chance(None)))


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def stores(self) -> Stores:
        return MemoryStores()


def test_an_aborted_transaction_leaves_a_hole() -> None:
    """Offsets of records that nobody sees are taken, as on Kafka: positions and counts are not the same."""
    world = MemoryWorld(MemoryBroker(ManualClock(0)))
    for value in (b"1", b"aborted", b"3"):
        world.broker.append(Out(world.topic("queue"), 0, b"k", value), visible=value != b"aborted")
    member = world.member().owns()
    member.connection.open(0, START)
    member.awaits(b"1", b"3")
    assert [record.offset() for record in member.got] == [0, 2]


def test_a_record_of_the_namespace_has_a_partition() -> None:
    """Only the sender knows the right one: the client for Kafka would choose another, and nobody would notice."""
    member = (world := MemoryWorld(MemoryBroker(ManualClock(0)))).member().owns()
    with pytest.raises(ValueError, match="partition number"):
        member.connection.commit([Out(world.topic("queue", "billing"), ANY_PARTITION, b"k", b"v")], {0: 0})
