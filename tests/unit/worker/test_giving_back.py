"""What a worker leaves behind when its partitions move away."""

import threading
from collections.abc import Callable
from datetime import timedelta
from time import monotonic

from pydantic import BaseModel

from conversations import Contract, Dialog, Service, WorkerSettings
from conversations.client import Client
from conversations.config import Kafka
from conversations.local import LocalClient, MemoryCommands
from conversations.memory.broker import MemoryBroker
from conversations.memory.clock import SystemClock
from conversations.memory.connection import MemoryConnection
from conversations.protocol import rows
from conversations.protocol.partition_row import decode_partition
from conversations.stores.memory import MemoryStores
from conversations.worker import Worker


class Job(BaseModel):
    n: int


JOBS = Contract("Jobs", sent_by_initiator=[Job])


class GatedService:
    """A sender and a worker whose only handler waits until it is let go."""

    def __init__(self) -> None:
        self.broker = MemoryBroker(SystemClock())
        self.begun, self.let_go = threading.Event(), threading.Event()
        self.handled: list[int] = []
        self.sender = Service("sender", initiates=[JOBS])
        self.slow = Service("slow", accepts=[JOBS])
        self.slow.on(Job)(self.work)
        for name in ("sender", "slow"):
            self.broker.create_service(name, 1)

    def work(self, job: Job, _dialog: Dialog) -> None:
        self.begun.set()
        assert self.let_go.wait(30)
        self.handled.append(job.n)

    def worker(self, service: Service, revocation: timedelta = timedelta(seconds=30)) -> Worker:
        settings = WorkerSettings(patience=timedelta(0), revocation=revocation)
        return Worker(service, lambda: MemoryConnection(self.broker, service.name), MemoryStores(), settings=settings)

    def client(self) -> Client:
        return LocalClient(self.sender, Kafka("memory"), MemoryCommands(self.broker, "sender"))

    def at_work(self, worker: Worker) -> None:
        """Send one job and step until its handler runs."""
        sender = self.worker(self.sender)
        with self.client() as client, client.begin_dialog("slow", JOBS) as dialog:
            dialog.send(Job(n=1))
        step_until(self.begun.is_set, sender, worker)
        worker.step()
        sender.close()

    def is_clean(self) -> bool:
        """Whether the partition's row says that it was given back in order."""
        restored = MemoryConnection(self.broker, "slow").restore(0, None).advance(1_000)
        return decode_partition(dict(restored.rows)[rows.PARTITION] or b"").clean


def step_until(condition: Callable[[], bool], *workers: Worker) -> None:
    deadline = monotonic() + 30
    while not condition():
        assert monotonic() < deadline
        for worker in workers:
            worker.step()


def test_a_partition_is_clean_when_its_slow_handler_finished_while_it_was_given_back() -> None:
    gated = GatedService()
    worker = gated.worker(gated.slow)
    gated.at_work(worker)
    threading.Timer(0.05, gated.let_go.set).start()
    worker.close()
    assert gated.handled == [1]
    assert gated.is_clean()
    successor = gated.worker(gated.slow)
    step_until(lambda: bool(successor.partitions) and not successor.step(), successor)
    successor.close()
    assert gated.handled == [1], "its result was committed"


def test_a_partition_is_clean_although_its_handler_still_runs_and_its_message_is_handled_by_the_next_owner() -> None:
    """Nobody crashed; the row that waits brings the message back."""
    gated = GatedService()
    worker = gated.worker(gated.slow, timedelta(seconds=0.01))
    gated.at_work(worker)
    worker.close()
    assert gated.is_clean()
    gated.let_go.set()
    successor = gated.worker(gated.slow)
    step_until(lambda: successor.counts.handled == 1, successor)
    successor.close()


def test_what_was_read_of_a_partition_is_forgotten_with_it() -> None:
    """Its next owner reads it again; this worker too, should the partition come back before it was taken."""
    gated = GatedService()
    with gated.client() as client, client.begin_dialog("slow", JOBS) as dialog:
        dialog.send(Job(n=1))
    sender, worker = gated.worker(gated.sender), gated.worker(gated.slow)
    step_until(lambda: len(gated.broker.queue("slow")[0]) > 0, sender)
    (record, *_) = gated.broker.queue("slow")[0]
    worker.assignment.keep([record])
    worker.lost([0])
    assert worker.assignment.backlog == []
    worker.assignment.put_back([record])  # as when its copy was found damaged in the middle of a step
    assert worker.assignment.backlog == []
