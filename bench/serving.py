"""Runs a worker in a thread of a measured process, and counts what it costs and does. The parent process asks for the counts."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from conversations import Kafka, Service, WorkerSettings
from conversations.crew import Crew
from conversations.interpreter import relax
from conversations.kafka.connection import KafkaConnection
from conversations.stores.rocksdb import RocksStores
from conversations.worker import Worker

READY = 60.0


class WatchedWorker(Worker):
    """A worker that counts how often its partitions moved."""

    moves = 0

    def assigned(self, partitions: Sequence[int]) -> None:
        self.moves += 1
        super().assigned(partitions)

    def revoked(self, partitions: Sequence[int]) -> None:
        self.moves += 1
        super().revoked(partitions)

    def lost(self, partitions: Sequence[int]) -> None:
        self.moves += 1
        super().lost(partitions)

    def figures(self) -> dict[str, Any]:
        """Return what the process used and what the worker did since the start."""
        counts = self.counts
        return {
            "cpu_seconds": time.process_time(),
            "moves": self.moves,
            "fenced": counts.fenced,
            "handled": counts.handled,
            "failures": counts.failures,
            "commits": counts.commits,
            "dead_letters": counts.dead_letters,
        }


@contextmanager
def serving(service: Service[Any], kafka: Kafka, directory: str, settings: WorkerSettings) -> Iterator[WatchedWorker]:
    """Run a worker with its state in RocksDB, as ``conversations run`` does, until the block is left."""
    worker = WatchedWorker(
        service,
        lambda: KafkaConnection(kafka, service.name),
        RocksStores(Path(directory) / service.name),
        settings=settings,
        namespace=kafka.namespace,
    )
    relax()
    with Crew([worker], kafka) as crew:
        crew.await_ready(READY)
        yield worker


def difference(after: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """Return what was used and done between two calls of ``figures``."""
    return {name: value - before[name] for name, value in after.items()}
