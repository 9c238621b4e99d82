"""A service on a log in memory whose workers die. Each death is that of a process that does not leave its consumer group in order."""

from __future__ import annotations

import threading
from datetime import timedelta
from functools import partial
from uuid import uuid4

from pydantic import BaseModel

from conversations import Contract, Dialog, PoisonPolicy, Service, WorkerSettings
from conversations.config import Kafka
from conversations.local import LocalClient, MemoryCommands
from conversations.memory.broker import MemoryBroker
from conversations.memory.clock import SystemClock
from conversations.memory.connection import MemoryConnection
from conversations.protocol import rows
from conversations.protocol.command import Action, encode_command
from conversations.protocol.parked import Decision, Parked, parked, resolution
from conversations.protocol.partition_row import PartitionRow, decode_partition
from conversations.protocol.topics import DECISIONS
from conversations.stores.memory import MemoryStores
from conversations.testing.reading import state_of
from conversations.worker import Worker
from conversations.worker.stage import Stage
from tests.support.waiting import step_until


class Job(BaseModel):
    n: int
    stuck: bool = False
    """True if its handler waits until ``let_go`` is set."""
    fails: bool = False
    """True if its handler fails as long as ``mended`` is not set."""
    timer: bool = False
    """True if its handler sets a timer that is due at once. The handler of the timer waits until ``let_go`` is set."""
    timers: tuple[str, ...] = ()
    """Names of such timers. They are in the group's state when their handlers have finished."""


JOBS = Contract("Jobs", sent_by_initiator=[Job])
until = partial(step_until, seconds=30)


class MortalService:
    """A service ``sender``, and a service ``slow`` whose handlers wait until ``let_go`` is set. ``policy`` is the policy of ``slow``."""

    def __init__(self, partitions: int = 1, policy: PoisonPolicy | None = None) -> None:
        self.broker = MemoryBroker(SystemClock())
        self.begun, self.let_go, self.mended = threading.Event(), threading.Event(), threading.Event()
        self.handled: list[int] = []
        self.rows_seen: list[PartitionRow] = []
        """Committed rows of partition 0, one read by each handler that began to wait."""
        self.sender = Service("sender", initiates=[JOBS])
        self.slow = Service("slow", accepts=[JOBS], poison=[policy or PoisonPolicy.service_broker()])
        self.slow.on(Job)(self.work)
        self.slow.on_timer()(self.ring)
        for name in ("sender", "slow"):
            self.broker.create_service(name, partitions)
        self._threads: list[threading.Thread] = []

    def work(self, job: Job, dialog: Dialog) -> None:
        if job.timer:
            dialog.set_timer(timedelta(0))
        for name in job.timers:
            dialog.set_timer(timedelta(0), name=name)
        if job.fails and not self.mended.is_set():
            raise ValueError(job.n)
        if job.stuck:
            self._wait()
        self.handled.append(job.n)

    def ring(self, dialog: Dialog) -> None:
        self._wait()
        if dialog.timer:
            dialog.group.state.setdefault("fired", []).append(dialog.timer)

    def _wait(self) -> None:
        self.rows_seen.append(self.row())
        self.begun.set()
        assert self.let_go.wait(30)

    def worker(self, service: Service | None = None, *, batch: int = 100) -> Worker:
        service = service or self.slow
        settings = WorkerSettings(patience=timedelta(0), revocation=timedelta(0), batch=batch)
        worker = Worker(service, lambda: MemoryConnection(self.broker, service.name), MemoryStores(), settings=settings)
        worker.context.share(Stage(uuid4().hex))  # the worker counts as a process of its own, which may die
        return worker

    def opened(self, *, batch: int = 100) -> Worker:
        """Make a worker, and step it until it has taken up its partitions."""
        worker = self.worker(batch=batch)
        until(lambda: bool(worker.partitions), worker)
        return worker

    def send(self, *jobs: Job) -> str:
        """Send jobs on one dialog, until they are in the queue of the service. Return the id of the dialog."""
        client = LocalClient(self.sender, Kafka("memory"), MemoryCommands(self.broker, "sender"))
        before = self.waiting_in_queue()
        with client, client.begin_dialog("slow", JOBS) as dialog:
            for job in jobs:
                dialog.send(job)
        sender = self.worker(self.sender)
        until(lambda: self.waiting_in_queue() == before + len(jobs), sender)
        sender.close()
        return dialog.id

    def waiting_in_queue(self) -> int:
        return sum(record.visible for records in self.broker.queue("slow") for record in records)

    def parked(self, partition: int = 0) -> list[Parked]:
        """Return the failed messages of a partition, as committed rows tell."""
        with self.broker.changed:
            return parked(state_of(self.broker, "slow")[partition], "slow", partition)

    def give_back(self, it: Parked) -> None:
        """Decide, as an operator, that a failed message is tried again."""
        command = resolution(it, Decision(Action.RETRY, "ann", "mended"), uuid4().bytes, self.broker.clock.now())
        self.broker.append_keyed("slow", DECISIONS, it.key.encode(), encode_command(command))

    def row(self, partition: int = 0) -> PartitionRow:
        """Return the committed row of a partition."""
        with self.broker.changed:
            return decode_partition(state_of(self.broker, "slow")[partition][rows.PARTITION])


def die(worker: Worker) -> None:
    """End a worker as a SIGKILL and the time-out of its session would end it."""
    connection = worker.context.connection
    assert isinstance(connection, MemoryConnection)
    connection.vanish()
