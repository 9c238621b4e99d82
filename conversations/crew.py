"""Workers in threads of this process. They are started and stopped together."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from conversations.config import Kafka, Periods, WorkerSettings
from conversations.errors import ConversationError
from conversations.feeds import Feeder
from conversations.ports import Stores
from conversations.scheduler import Threads
from conversations.service import Service
from conversations.stores.memory import MemoryStores
from conversations.worker import Presence, Stage, Worker


def kafka_worker(
    service: Service[Any],
    kafka: Kafka,
    settings: WorkerSettings,
    *,
    state_directory: Path | None = None,
    loop: asyncio.AbstractEventLoop | None = None,
) -> Worker:
    """Make a worker of a service on Kafka. It connects when it runs.

    Args:
        service: the service; it is checked for missing handlers.
        kafka: the cluster.
        settings: the worker's settings; ``slot`` is the name of the worker, the same after a restart.
        state_directory: directory for the local copies of this worker. No other worker may use it. Without it, the copies are in memory.
        loop: event loop for ``async def`` handlers; by default the worker makes its own.

    Raises:
        DeclarationError: the service has no handler for a message type that it may receive.
    """
    from conversations.kafka.connection import KafkaConnection

    declaration = service.declaration()
    return Worker(
        service,
        lambda: KafkaConnection(
            kafka, service.name, slot=settings.slot, periods=settings.periods, declaration=declaration
        ),
        _stores(state_directory, settings.periods),
        settings=settings,
        scheduler=Threads(settings.concurrency, service.name, loop=loop),
        namespace=kafka.namespace,
    )


def kafka_feeders(service: Service[Any], kafka: Kafka, settings: WorkerSettings) -> list[Feeder]:
    """Make the feeders of a service on Kafka, one for each of its feeds. They connect when they run.

    Raises:
        DeclarationError: a feed reads a topic of the namespace.
    """
    from conversations.kafka.feeding import KafkaFeeder

    return [KafkaFeeder(service.name, feed, kafka, settings) for feed in service.feeds.values()]


def _stores(directory: Path | None, periods: Periods) -> Stores:
    if directory is None:
        return MemoryStores()
    from conversations.stores.rocksdb import RocksStores

    return RocksStores(directory, periods=periods)


class Crew:
    """The workers of this process, each in its own thread. When a worker ends, ``await_end`` returns.

    The end of the crew's ``with`` block stops all workers, and raises the error of the worker that failed first.

    Args:
        workers: all workers of this process.
        kafka: the cluster and the namespace. Clients in this process find the workers by both.
        feeders: the feeders of the workers' services. Each runs in its own thread as long as the workers.
    """

    def __init__(self, workers: Sequence[Worker], kafka: Kafka, feeders: Sequence[Feeder] = ()) -> None:
        self._workers, self._feeders = workers, feeders
        stage = Stage()
        for worker in workers:
            worker.context.share(stage)
        address = f"{kafka.bootstrap}/{kafka.namespace}"
        self._presences = [Presence(worker.context, worker.partitions, address) for worker in workers]
        self._threads = [
            threading.Thread(target=self._run, args=(worker,), name=f"{worker.context.name}-worker", daemon=True)
            for worker in workers
        ]
        self._threads += [
            threading.Thread(target=self._feed, args=(it,), name=f"{it.service} reads {it.feed.topic}", daemon=True)
            for it in feeders
        ]
        self._failures: list[BaseException] = []
        self._over = threading.Event()

    def _run(self, worker: Worker) -> None:
        try:
            for feeder in self._feeders:
                if feeder.service == worker.context.name:
                    feeder.check()  # before the worker joins, so that a missing topic is an error of its start
            worker.run()
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            self._fail(error)
        finally:
            self._over.set()
            worker.ready.set()  # ends ``await_ready``, which then raises the failure

    def _feed(self, feeder: Feeder) -> None:
        try:
            feeder.run()
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            self._fail(error)
            self._over.set()

    def _fail(self, error: BaseException) -> None:
        self._failures.append(error)
        for presence in self._presences:
            presence.abort(error)

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        for presence in self._presences:
            presence.arrive()
        return self

    def __exit__(self, kind: object, *exc: object) -> None:
        for presence in self._presences:
            presence.depart()
        self.stop()
        for thread in self._threads:
            thread.join()
        if kind is None:
            self.raise_failure()

    def stop(self) -> None:
        """Ask all workers and feeders to stop. May be called from any thread and from signal handlers."""
        for feeder in self._feeders:
            feeder.stop()
        for worker in self._workers:
            worker.stop()

    def await_ready(self, seconds: float) -> None:
        """Wait until every worker has an open partition.

        Raises:
            ConversationError: the wait for a worker took more than ``seconds``.
            BaseException: the error of a worker that failed.
        """
        for worker in self._workers:
            if not worker.ready.wait(seconds):
                raise ConversationError(f"service {worker.context.name!r} did not start within {seconds:g} s")
        self.raise_failure()

    def await_end(self) -> None:
        """Wait until a worker has ended, because of ``stop`` or a failure. The end of the ``with`` block raises the failure."""
        self._over.wait()

    def raise_failure(self) -> None:
        if self._failures:
            raise self._failures[0]
