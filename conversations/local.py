"""Services and a client in one process: in memory, or on a Kafka given by its address."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from conversations.client import Client
from conversations.config import Kafka, WorkerSettings
from conversations.errors import ConversationError
from conversations.memory.broker import MemoryBroker
from conversations.memory.clock import SystemClock
from conversations.memory.log import MemoryLog
from conversations.memory.store import MemoryStores
from conversations.ports import CommandSink, Log
from conversations.protocol.topics import COMMANDS
from conversations.service import Service
from conversations.worker import Worker
from conversations.worker.presence import Presence

CLIENT = "local.client"
"""The service that the client of ``local`` speaks for."""
START_SECONDS = 60.0


class MemoryCommands:
    """Appends commands of one service to a memory broker."""

    def __init__(self, broker: MemoryBroker, service: str) -> None:
        self._broker = broker
        self._service = service

    def append_async(self, key: bytes, value: bytes) -> Future[None]:
        """Append one command; it is durable, as far as memory is, at once."""
        future: Future[None] = Future()
        self._broker.append_keyed(self._service, COMMANDS, key, value)
        future.set_result(None)
        return future

    def close(self) -> None:
        """Nothing to disconnect."""


class LocalClient(Client):
    """A client whose commands go where the services of ``local`` read them."""

    def __init__(self, service: Service[Any], kafka: Kafka, sink: CommandSink | None) -> None:
        super().__init__(service, kafka)
        self._sink = sink


@contextmanager
def local(
    *services: Service[Any], kafka: Kafka | None = None, settings: WorkerSettings | None = None
) -> Iterator[Client]:
    """Run services in this process and give a client that speaks as the service ``local.client``.

    Without ``kafka`` everything is in memory and gone at the end; with it the same runs on Kafka's topics, which are
    created when they are missing.

    Raises:
        DeclarationError: a service cannot handle what it may receive.
        LogError: Kafka cannot be reached.
    """
    client_service = _client_service(services)
    everyone = (*services, client_service)
    if kafka is None:
        address, broker = Kafka("memory"), MemoryBroker(SystemClock())
        for service in everyone:
            broker.create_service(service.name, 1)
        sink: CommandSink | None = MemoryCommands(broker, CLIENT)
        open_log = _in_memory(broker)
    else:
        address, sink, open_log = kafka, None, _on_kafka(kafka, everyone)
    with _Crew(everyone, address, open_log, settings):
        client = LocalClient(client_service, address, sink)
        with client:
            yield client


def _client_service(services: tuple[Service[Any], ...]) -> Service[Any]:
    contracts = {contract.name: contract for service in services for contract in service.accepts.values()}
    return Service(
        CLIENT,
        initiates=list(contracts.values()),
        ignores=[name for contract in contracts.values() for name in contract.by_target],
    )


def _in_memory(broker: MemoryBroker) -> Callable[[str], Callable[[], Log]]:
    return lambda service: lambda: MemoryLog(broker, service)


def _on_kafka(kafka: Kafka, services: tuple[Service[Any], ...]) -> Callable[[str], Callable[[], Log]]:
    from conversations.kafka.admin import apply
    from conversations.kafka.log import KafkaLog

    apply(kafka, [service.declaration() for service in services], partitions=4, replication=-1)
    return lambda service: lambda: KafkaLog(kafka, service)


class _Crew:
    """A worker thread per service."""

    def __init__(
        self,
        services: tuple[Service[Any], ...],
        kafka: Kafka,
        open_log: Callable[[str], Callable[[], Log]],
        settings: WorkerSettings | None,
    ) -> None:
        self._workers = [
            Worker(service, open_log(service.name), MemoryStores(), settings=settings, namespace=kafka.namespace)
            for service in services
        ]
        self._presences = [Presence(worker, f"{kafka.bootstrap}/{kafka.namespace}") for worker in self._workers]
        self._threads = [
            threading.Thread(target=self._run, args=(worker,), name=f"{worker.owner.name}-worker", daemon=True)
            for worker in self._workers
        ]
        self._failures: list[BaseException] = []

    def _run(self, worker: Worker) -> None:
        try:
            worker.run()
        except BaseException as error:  # noqa: BLE001 - carried to the thread that asked for the worker
            self._failures.append(error)
            for presence in self._presences:
                presence.abort(error)
            worker.ready.set()

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()
        for worker in self._workers:
            if not worker.ready.wait(START_SECONDS):
                raise ConversationError(f"service {worker.owner.name!r} did not start within {START_SECONDS:g} s")
        self._raise_failure()
        for presence in self._presences:
            presence.arrive()

    def __exit__(self, kind: object, *exc: object) -> None:
        for presence in self._presences:
            presence.depart()
        for worker in self._workers:
            worker.stop()
        for thread in self._threads:
            thread.join(START_SECONDS)
        if kind is None:
            self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failures:
            raise self._failures[0]
