"""A worker that starts while its cluster is not ready waits for it; an address where nobody answers ends it."""

import pytest

from conversations import Service
from conversations.errors import KafkaNotReady, KafkaUnreachable
from conversations.memory.broker import MemoryBroker
from conversations.memory.clock import SystemClock
from conversations.memory.connection import MemoryConnection
from conversations.ports import Listener
from conversations.stores.memory import MemoryStores
from conversations.worker import Worker, membership

TRIES = 3


def worker(failure: KafkaUnreachable) -> Worker:
    """Make a worker whose log fails to join a few times."""
    broker = MemoryBroker(SystemClock())
    broker.create_service("s", 1)
    left = [failure] * TRIES

    class Starting(MemoryConnection):
        def join(self, listener: Listener) -> None:
            if left:
                raise left.pop()
            super().join(listener)

    return Worker(Service("s"), lambda: Starting(broker, "s"), MemoryStores())


def test_a_worker_that_starts_while_its_cluster_is_not_ready_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transactions of a worker that died cannot be ended while a leader is missing: CONCURRENT_TRANSACTIONS, for minutes."""
    monkeypatch.setattr(membership, "OUTAGE", (0.0, 0.0))
    waiting = worker(KafkaNotReady("k:1", "concurrent transactions"))
    for _ in range(TRIES):
        assert not waiting.joined
        waiting.step()
    waiting.step()
    assert waiting.joined
    waiting.close()


def test_a_worker_whose_address_nobody_answers_at_ends() -> None:
    ending = worker(KafkaUnreachable("k:1", "nobody answers"))
    with pytest.raises(KafkaUnreachable):
        ending.step()
    ending.close()
