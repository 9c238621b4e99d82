"""Runs a worker in a thread of a measured process, and counts what it costs and does. The parent process asks for the counts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.watching import Moves, WatchedConnection
from conversations import Kafka, Service, WorkerSettings
from conversations.crew import Crew
from conversations.interpreter import relax
from conversations.stores.rocksdb import RocksStores
from conversations.worker import Worker

READY = 60.0


class Served:
    """A running worker, and what it costs and does."""

    def __init__(self, worker: Worker, moves: Moves) -> None:
        self.worker = worker
        self._moves = moves

    def figures(self) -> dict[str, Any]:
        """Return what the process used and what the worker did since the start."""
        counts = self.worker.counts
        return {
            "cpu_seconds": time.process_time(),
            "moves": self._moves.count,
            "fenced": counts.fenced,
            "handled": counts.handled,
            "failures": counts.failures,
            "commits": counts.commits,
            "dead_letters": counts.dead_letters,
        }


@contextmanager
def serving(service: Service[Any], kafka: Kafka, directory: str, settings: WorkerSettings) -> Iterator[Served]:
    """Run a worker with its state in RocksDB, as ``conversations run`` does, until the block is left."""
    moves = Moves()
    worker = Worker(
        service,
        lambda: WatchedConnection(moves, kafka, service.name),
        RocksStores(Path(directory) / service.name),
        settings=settings,
        namespace=kafka.namespace,
    )
    relax()
    with Crew([worker], kafka) as crew:
        crew.await_ready(READY)
        yield Served(worker, moves)


def difference(after: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """Return what was used and done between two calls of ``figures``."""
    return {name: value - before[name] for name, value in after.items()}
