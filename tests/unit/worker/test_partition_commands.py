"""Commands about a partition: they concern no conversation, not even one of zeros."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from os import urandom

import pytest

from conversations import Service
from conversations.memory.broker import MemoryBroker
from conversations.memory.clock import SystemClock
from conversations.memory.connection import MemoryConnection
from conversations.protocol.command import Command, End, Switch, Tick, encode_command, to_partition, topic_for
from conversations.scheduler import Inline
from conversations.stores.memory import MemoryStores
from conversations.testing.reading import dead_letters
from conversations.worker import Worker
from conversations.worker.partition import Partition
from tests.support.waiting import until

OFF = Switch(on=False, reason="test")


@pytest.fixture
def broker() -> MemoryBroker:
    broker = MemoryBroker(SystemClock())
    broker.create_service("desk", 1)
    return broker


@pytest.fixture
def worker(broker: MemoryBroker) -> Iterator[Worker]:
    worker = Worker(Service("desk"), lambda: MemoryConnection(broker, "desk"), MemoryStores(), scheduler=Inline())
    yield worker
    worker.close()


@pytest.fixture
def tell(broker: MemoryBroker, worker: Worker) -> Callable[[Command], Partition]:
    def told(command: Command) -> Partition:
        broker.append_keyed("desk", topic_for(command), command.key.encode(), encode_command(command))
        until(lambda: worker.step() or worker.counts.commands, pause=0)
        return worker.partitions[0]

    return told


def command(broker: MemoryBroker, operation: Switch | Tick) -> Command:
    return to_partition((0, 1), operation, "me", urandom(16), broker.clock.now())


@pytest.mark.parametrize("operation", [OFF, Tick()])
def test_they_are_at_no_endpoint(
    broker: MemoryBroker, tell: Callable[[Command], Partition], operation: Switch | Tick
) -> None:
    partition = tell(command(broker, operation))
    assert not partition.actives
    assert bool(partition.progress.row.off) is isinstance(operation, Switch)


def test_one_that_is_about_a_dialog_too_is_refused(broker: MemoryBroker, tell: Callable[[Command], Partition]) -> None:
    mixed = command(broker, OFF)
    mixed.operations = (OFF, End())
    partition = tell(mixed)
    assert not partition.progress.row.off
    assert [letter.reason for letter in dead_letters(broker, "desk")] == ["command-refused"]
