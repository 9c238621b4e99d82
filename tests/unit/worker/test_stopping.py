"""A worker that is told to stop while Kafka takes no commit ends all the same."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

import pytest

from conversations import Service, WorkerSettings
from conversations.errors import Interrupted
from conversations.memory.broker import MemoryBroker
from conversations.memory.clock import SystemClock
from conversations.memory.connection import MemoryConnection
from conversations.ports import Produced, nothing
from conversations.stores.memory import MemoryStores
from conversations.worker import Worker
from conversations.worker import worker as worker_module


def test_a_worker_that_was_told_to_stop_does_not_try_to_commit_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each try may take ten seconds: its leader is there, and cut off from its cluster."""
    monkeypatch.setattr(worker_module, "LEAVING", 0.0)
    broker = MemoryBroker(SystemClock())
    broker.create_service("s", 1)
    tries: list[int] = []

    class CutOff(MemoryConnection):
        def commit(
            self, outs: Sequence[Produced], offsets: Mapping[int, int], meanwhile: Callable[[], None] = nothing
        ) -> Mapping[int, int]:
            tries.append(len(outs))
            worker.stop()
            raise Interrupted("the records were not taken in time")

    settings = WorkerSettings(revocation=timedelta(0))
    worker = Worker(Service("s"), lambda: CutOff(broker, "s"), MemoryStores(), settings=settings)
    worker.run()
    assert len(tries) == 1
