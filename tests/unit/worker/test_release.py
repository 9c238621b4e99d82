"""A peer that was absent is back: its delayed messages are released in short slices, and the other dialogs of the worker go on."""

from conversations import Contract, Service
from conversations.config import Kafka
from conversations.local import LocalClient, MemoryCommands
from conversations.memory.broker import MemoryBroker
from conversations.memory.clock import ManualClock, SystemClock
from conversations.memory.connection import MemoryConnection
from conversations.stores.memory import MemoryStores
from conversations.worker import Worker
from conversations.worker.transmission import RELEASE
from tests.crashes.support.mortal_workers import Job
from tests.support.waiting import step_until

JOBS = Contract("Jobs", sent_by_initiator=[Job])
LOOK = 100
"""Microseconds by which the clock goes on whenever somebody looks at it."""
SECOND = 1_000_000
WAITING = 600


class LookedAtClock(ManualClock):
    """A clock on which each look takes some time, so that work takes time too."""

    def now(self) -> int:
        self.advance(LOOK)
        return super().now()

    def steady(self) -> int:
        self.advance(LOOK)
        return super().steady()


class Sender:
    """A service whose dialogs wait for the service ``absent``."""

    def __init__(self) -> None:
        self.clock = LookedAtClock(SystemClock().now())
        self.broker = MemoryBroker(self.clock)
        service = Service("sender", initiates=[JOBS])
        for name in ("sender", "there"):
            self.broker.create_service(name, 1)
        self.worker = Worker(service, lambda: MemoryConnection(self.broker, "sender"), MemoryStores(), clock=self.clock)
        self._client = LocalClient(service, Kafka("memory"), MemoryCommands(self.broker, "sender"))

    def send(self, to: str) -> None:
        """Send a message on a new dialog."""
        with self._client.begin_dialog(to, JOBS, wait_for_service=True) as dialog:
            dialog.send(Job(n=0))

    def delayed(self) -> int:
        """Number of dialogs with delayed messages."""
        return sum(len(partition.waiting.delayed) for partition in self.worker.partitions.values())

    def sent(self, to: str) -> int:
        """Number of committed messages in the queue of a service."""
        return sum(record.visible for records in self.broker.queue(to) for record in records)


def test_delayed_messages_of_many_dialogs_are_released_in_short_slices_and_others_go_on() -> None:
    it = Sender()
    for _ in range(WAITING):
        it.send("absent")
    step_until(lambda: it.delayed() == WAITING, it.worker, seconds=30)
    it.broker.create_service("absent", 1)
    while not it.sent("absent"):  # until the pause of the destination is over
        it.clock.advance(SECOND)
        it.worker.step()
    slices = []
    while it.delayed():
        before = it.sent("absent")
        it.worker.step()
        slices.append(it.sent("absent") - before)
        if len(slices) == 2:
            it.send("there")
        assert len(slices) < 10 or it.sent("there") == 1, "it does not wait for the end of the release"
    assert it.sent("absent") == WAITING
    assert len(slices) > 10
    assert max(slices) <= RELEASE // LOOK
