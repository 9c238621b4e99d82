"""A service on a log in memory whose handlers wait at gates, as each message tells them. The test moves the clock."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from datetime import timedelta
from functools import partial
from time import time_ns
from typing import Any

from pydantic import BaseModel

from conversations import Contract, Dialog, PeerError, PoisonPolicy, Service, WorkerSettings
from conversations.client import Client
from conversations.config import Kafka
from conversations.local import LocalClient, MemoryCommands
from conversations.memory.broker import MemoryBroker
from conversations.memory.clock import ManualClock
from conversations.memory.connection import MemoryConnection
from conversations.protocol import rows
from conversations.protocol.partition_row import PartitionRow, decode_partition
from conversations.protocol.waiting_row import decode_waiting
from conversations.stores.memory import MemoryStores
from conversations.testing.reading import state_of
from conversations.worker import Worker
from tests.support.waiting import step_until

PATIENCE = 20.0
until = partial(step_until, seconds=PATIENCE)


class Task(BaseModel):
    name: str
    n: int = 0
    stuck: bool = False
    """True if its handler waits until the gate with its name is open."""


class Waiting(BaseModel):
    """A task whose handler is ``async def``. If ``stuck``, it awaits the gate with its name."""

    name: str
    stuck: bool = False


class Blocking(BaseModel):
    """A task whose handler is ``async def``, and blocks its event loop until the gate with its name is open."""

    name: str


class BriefBlocking(BaseModel):
    """A task like ``Blocking``, but its handler has a time limit of 50 ms."""

    name: str


class BriefWaiting(BaseModel):
    """A task whose handler is ``async def``, waits for nothing, and has a time limit of 50 ms."""

    name: str


class Brief(BaseModel):
    """A task whose handler waits until the gate with its name is open, and has a time limit of 50 ms."""

    name: str
    n: int = 0


class Patient(BaseModel):
    """A task whose handler waits until the gate with its name is open, and has a time limit of an hour."""

    name: str


class Result(BaseModel):
    name: str
    n: int


class Kept(BaseModel):
    seen: list[str] = []


WORK = Contract(
    "Work",
    sent_by_initiator=[Task, Waiting, Blocking, Brief, BriefBlocking, BriefWaiting, Patient],
    sent_by_target=[Result],
    lifetime=timedelta(hours=1),
)
LIMIT = timedelta(milliseconds=50)


class Gates:
    """Gates by name. A gate is made, shut, when its name is first used."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entered: dict[str, threading.Event] = defaultdict(threading.Event)
        self._open: dict[str, threading.Event] = defaultdict(threading.Event)
        self.entries: dict[str, int] = defaultdict(int)

    def entered(self, name: str) -> bool:
        """Return True if a handler has come to the gate."""
        with self._lock:
            return self._entered[name].is_set()

    def pass_through(self, name: str) -> None:
        """Come to the gate, and wait until it is open."""
        with self._lock:
            self.entries[name] += 1
            self._entered[name].set()
            gate = self._open[name]
        assert gate.wait(PATIENCE), f"gate {name} was never opened"

    def open(self, *names: str) -> None:
        with self._lock:
            for name in names:
                self._open[name].set()

    def open_all(self) -> None:
        with self._lock:
            names = [*self._entered, *self._open]
        self.open(*names)


class Workshop:
    """Two services: ``boss`` begins dialogs, and ``shop`` handles their tasks."""

    def __init__(self, partitions: int = 1) -> None:
        self.contract = WORK
        self.clock = ManualClock(time_ns() // 1_000)
        self.broker = MemoryBroker(self.clock)
        self.gates = Gates()
        self.done: list[tuple[str, int]] = []
        """Tasks whose handlers of ``shop`` finished, in order, even if the worker refused the result."""
        self.results: list[tuple[str, int]] = []
        """Results that ``boss`` received."""
        self.errors: list[int] = []
        """Codes of the errors that ``shop`` received."""
        self.boss = Service("boss", initiates=[WORK])
        self.shop = Service("shop", accepts=[WORK], state=Kept, poison=[PoisonPolicy.service_broker()])
        self._declare()
        for name in ("boss", "shop"):
            self.broker.create_service(name, partitions)
        self.workers: list[Worker] = []

    def _declare(self) -> None:
        @self.boss.on(Result)
        def hear(result: Result, dialog: Dialog) -> None:
            if result.name == "hold":
                self.gates.pass_through("hold")
            self.results.append((result.name, result.n))

        @self.boss.on_error()
        def ignore(error: PeerError, dialog: Dialog) -> None: ...

        @self.shop.on(Task)
        def work(task: Task, dialog: Dialog[Kept]) -> None:
            if task.stuck:
                self.gates.pass_through(task.name)
            if task.name == "bad":
                raise ValueError(task.name)
            if task.name == "timer":
                dialog.set_timer(timedelta(seconds=1))
            self._finish(task.name, task.n, dialog)

        @self.shop.on_timer(time_limit=LIMIT)
        def ring(dialog: Dialog[Kept]) -> None:
            self.gates.pass_through("ring")
            self._finish("ring", 0, dialog)

        @self.shop.on(Waiting)
        async def wait(task: Waiting, dialog: Dialog[Kept]) -> None:
            if task.stuck:
                await asyncio.to_thread(self.gates.pass_through, task.name)
            self._finish(task.name, 0, dialog)

        @self.shop.on(Blocking, time_limit=timedelta(hours=1))
        async def block(task: Blocking, dialog: Dialog[Kept]) -> None:
            self.gates.pass_through(task.name)
            self._finish(task.name, 0, dialog)

        @self.shop.on(BriefBlocking, time_limit=LIMIT)
        async def block_briefly(task: BriefBlocking, dialog: Dialog[Kept]) -> None:
            self.gates.pass_through(task.name)

        @self.shop.on(BriefWaiting, time_limit=LIMIT)
        async def do(task: BriefWaiting, dialog: Dialog[Kept]) -> None:
            self._finish(task.name, 0, dialog)

        @self.shop.on(Patient, time_limit=timedelta(hours=1))
        def take_time(task: Patient, dialog: Dialog[Kept]) -> None:
            self.gates.pass_through(task.name)
            dialog.send(Result(name=task.name, n=0))  # this needs no lock, unlike ``dialog.group.state``
            self.done.append((task.name, 0))

        @self.shop.on(Brief, time_limit=LIMIT)
        def hurry(task: Brief, dialog: Dialog[Kept]) -> None:
            self.gates.pass_through(task.name)
            self._finish(task.name, task.n, dialog)

        @self.shop.on_error()
        def note(error: PeerError, dialog: Dialog[Kept]) -> None:
            self.errors.append(error.code)

    def _finish(self, name: str, n: int, dialog: Dialog[Kept]) -> None:
        self.done.append((name, n))
        dialog.group.state.seen.append(name)
        dialog.send(Result(name=name, n=n))

    def worker(
        self,
        given: Service[Any] | None = None,
        *,
        concurrency: int = 16,
        connection: type[MemoryConnection] = MemoryConnection,
    ) -> Worker:
        service: Service[Any] = given or self.shop
        zero = timedelta(0)  # the clock stands still, so ENDs would wait for ever
        settings = WorkerSettings(patience=zero, revocation=zero, hold=zero, concurrency=concurrency)
        worker = Worker(
            service,
            lambda: connection(self.broker, service.name),
            MemoryStores(),
            settings=settings,
            clock=self.clock,
        )
        self.workers.append(worker)
        return worker

    def client(self) -> Client:
        service = self.boss
        return LocalClient(service, Kafka("memory"), MemoryCommands(self.broker, service.name))

    def ask(self, *tasks: BaseModel) -> str:
        """Begin a dialog with these tasks, and return its id. The tasks are sent when the worker of ``boss`` does steps."""
        with self.client() as client, client.begin_dialog("shop", WORK) as dialog:
            for task in tasks:
                dialog.send(task)
        return dialog.id

    def waiting(self) -> int:
        """Return the number of committed records in the queue of ``shop``."""
        return sum(record.visible for records in self.broker.queue("shop") for record in records)

    def row(self, partition: int = 0) -> PartitionRow:
        """Return the committed row of a partition."""
        return decode_partition(self._rows("shop", partition)[rows.PARTITION])

    def attempts(self, service: str = "shop") -> list[int]:
        """Return the number of failed attempts in each committed waiting row of partition 0."""
        found = self._rows(service, 0)
        return [decode_waiting(row).attempts for key, row in sorted(found.items()) if key[:1] == rows.WAITING]

    def _rows(self, service: str, partition: int) -> dict[bytes, bytes]:
        with self.broker.changed:
            return state_of(self.broker, service)[partition]

    def close(self) -> None:
        self.gates.open_all()
        for worker in self.workers:
            worker.close()
