"""A destination that takes no records for a moment keeps the order of its dialogs, whatever handlers do meanwhile."""

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from time import monotonic

from pydantic import BaseModel

from conversations import Contract, Dialog, Service, WorkerSettings
from conversations.config import Kafka
from conversations.errors import DestinationFailed
from conversations.local import LocalClient, MemoryCommands
from conversations.memory.broker import MemoryBroker
from conversations.memory.clock import ManualClock, SystemClock
from conversations.memory.connection import MemoryConnection
from conversations.ports import Produced, nothing
from conversations.protocol.envelope import Kind, decode
from conversations.stores.memory import MemoryStores
from conversations.worker import Worker

LONGEST = 30.0
SECOND = 1_000_000


class Job(BaseModel):
    n: int


class Done(BaseModel):
    n: int


JOBS = Contract("Jobs", sent_by_initiator=[Job], sent_by_target=[Done])


def until(condition: Callable[[], bool], *workers: Worker) -> None:
    deadline = monotonic() + LONGEST
    while not condition():
        assert monotonic() < deadline
        for worker in workers:
            worker.step(0.001)


class RefusingConnection(MemoryConnection):
    """A connection that meets a destination without room, once, while the handler of job 2 returns."""

    def __init__(self, overlapping: "OverlappingHandlers") -> None:
        super().__init__(overlapping.broker, "worker")
        self._overlapping = overlapping

    def commit(
        self, outs: Sequence[Produced], offsets: Mapping[int, int], meanwhile: Callable[[], None] = nothing
    ) -> Mapping[int, int]:
        overlapping = self._overlapping
        if not overlapping.refused and any(out[0] == overlapping.queue and number_of(out) == 1 for out in outs):
            overlapping.refused = True
            overlapping.committing.set()
            overlapping.await_handled(3)
            raise DestinationFailed({overlapping.queue: "no room for a moment"})
        return super().commit(outs, offsets, meanwhile)


def number_of(out: Produced) -> int:
    envelope = decode(out[3] or b"")
    return envelope.seq if envelope.kind is Kind.MESSAGE else -1


class OverlappingHandlers:
    """A worker whose handler of job 2 returns while the answer to job 1 is being committed."""

    queue = "conv.asker.queue"

    def __init__(self) -> None:
        self.clock = ManualClock(SystemClock().now())  # near the client's, moved by hand
        self.broker = MemoryBroker(self.clock)
        self.committing, self.pause = threading.Event(), threading.Event()
        self.refused = False
        self.got: list[int] = []
        self.asker = Service("asker", initiates=[JOBS])
        self.asker.on(Done)(self.take)
        service = Service("worker", accepts=[JOBS])
        service.on(Job)(self.work)
        for name in ("asker", "worker"):
            self.broker.create_service(name, 1)
        settings = WorkerSettings(patience=timedelta(seconds=0.05), revocation=timedelta(0))
        self.workers = [
            Worker(self.asker, lambda: MemoryConnection(self.broker, "asker"), MemoryStores(), clock=self.clock),
            Worker(service, lambda: RefusingConnection(self), MemoryStores(), settings=settings, clock=self.clock),
        ]

    def take(self, done: Done, _dialog: Dialog) -> None:
        self.got.append(done.n)

    def work(self, job: Job, dialog: Dialog) -> None:
        if job.n == 2:
            assert self.committing.wait(LONGEST)
        dialog.send(Done(n=job.n))

    def await_handled(self, count: int) -> None:
        """Wait until the effects of so many messages are written into the next step."""
        deadline = monotonic() + LONGEST
        while self.workers[1].counts.handled < count:
            assert monotonic() < deadline
            self.pause.wait(0.001)


def test_what_is_said_while_a_commit_fails_does_not_overtake_what_was_refused() -> None:
    """The answer to job 2 is written after the transaction with the answer to job 1 was closed, and before it failed."""
    overlapping = OverlappingHandlers()
    with LocalClient(overlapping.asker, Kafka("memory"), MemoryCommands(overlapping.broker, "asker")) as client:
        with client.begin_dialog("worker", JOBS) as dialog:
            dialog.send(Job(n=0))
        until(lambda: overlapping.got == [0], *overlapping.workers)
        with client.dialog(dialog.id) as more:
            more.send(Job(n=1))
            more.send(Job(n=2))
        until(lambda: overlapping.refused, *overlapping.workers)
        overlapping.clock.advance(5 * SECOND)
        until(lambda: len(overlapping.got) == 3, *overlapping.workers)
    sent = [decode(record.value() or b"") for record in overlapping.broker.queue("asker")[0] if record.visible]
    assert [envelope.seq for envelope in sent if envelope.kind is Kind.MESSAGE] == [0, 1, 2]
    assert overlapping.got == [0, 1, 2]
    for worker in overlapping.workers:
        worker.close()
