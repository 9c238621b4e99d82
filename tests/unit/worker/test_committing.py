"""A worker whose commit gets no answer says so while it waits, and does not call itself ready."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from conversations import Service, WorkerSettings
from conversations.config import Periods
from conversations.durations import SECOND
from conversations.errors import Interrupted
from conversations.memory.broker import MemoryBroker
from conversations.memory.clock import SystemClock
from conversations.memory.connection import MemoryConnection
from conversations.ports import Produced, nothing
from conversations.stores.memory import MemoryStores
from conversations.worker import Worker
from tests.support.waiting import until


def test_a_worker_whose_commit_is_not_answered_is_not_ready() -> None:
    """Under load nothing is polled meanwhile: nobody else would notice before the page calls it stuck."""
    broker = MemoryBroker(SystemClock())
    broker.create_service("s", 1)
    said: list[Any] = []
    ready: list[bool] = []

    class Silent(MemoryConnection):
        def commit(
            self, outs: Sequence[Produced], offsets: Mapping[int, int], meanwhile: Callable[[], None] = nothing
        ) -> Mapping[int, int]:
            if len(said) < 2:
                worker.ready.set()  # as it is of a worker that works
                said.append(until(lambda: worker.condition()["kafka"], "it is noticed", seconds=30))
                raise Interrupted("the records were not taken in time")
            ready.append(worker.ready.is_set())
            return super().commit(outs, offsets, meanwhile)

    settings = WorkerSettings(periods=replace(Periods(), unreachable_after=SECOND // 100))
    worker = Worker(Service("s"), lambda: Silent(broker, "s"), MemoryStores(), settings=settings)
    until(lambda: worker.step() or worker.partitions, "its partition is open", pause=0)
    assert [it["trying"] for it in said] == ["committing a step"] * 2
    assert all(it["unreachable"] for it in said)
    assert ready == [False]
    until(lambda: worker.step() or worker.ready.is_set(), "it is ready again", pause=0)
    assert worker.condition()["kafka"] is None
    worker.close()
