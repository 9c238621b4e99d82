"""Services and a client in one process, in memory or on a given Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Any, NoReturn, TypeVar

from conversations.client import Client
from conversations.config import Kafka, Periods, WorkerSettings, check_kafka
from conversations.crew import Crew, kafka_feeders
from conversations.errors import DeclarationError, LocalError
from conversations.feeds import Feeder
from conversations.memory.broker import MemoryBroker
from conversations.memory.clock import SystemClock
from conversations.memory.connection import MemoryConnection
from conversations.memory.feeding import MemoryFeeder, append_plain
from conversations.memory.group_states import MemoryGroupStates
from conversations.ports import CommandSink, Connection, Headers, StateReader
from conversations.protocol.admission import unknown_service
from conversations.protocol.contract import Contract, as_contracts
from conversations.protocol.publications import Headers as PublicationHeaders
from conversations.protocol.publications import Text, publication
from conversations.protocol.release_changes import AnotherProgram
from conversations.protocol.topics import COMMANDS
from conversations.reader import Reader
from conversations.service import Service, as_services
from conversations.stores.memory import MemoryStores
from conversations.worker import Worker

CLIENT = "local.client"
"""Name of the service for which the client of ``local`` speaks."""
START_SECONDS = 60.0
S = TypeVar("S")


class MemoryCommands:
    """A sink that appends the commands of one service to a memory broker."""

    def __init__(self, broker: MemoryBroker, service: str) -> None:
        self._broker = broker
        self._service = service

    def append_async(
        self, key: bytes, values: Sequence[bytes], headers: Headers | None = None, *, to: str = ""
    ) -> Future[None]:
        """Append the records of one command. The command is in the broker's memory when this method returns. If there is no service ``to``, it fails."""
        future: Future[None] = Future()
        if to and to not in self._broker.known():
            future.set_exception(unknown_service(to, self._broker.known()))
            return future
        for value in values:
            self._broker.append_keyed(self._service, COMMANDS, key, value, headers)
        future.set_result(None)
        return future

    def close(self) -> None:
        """Do nothing, because there is no connection."""


class LocalClient(Client):
    """A client that writes its commands to ``sink``. Without a sink, it writes them to Kafka."""

    def __init__(
        self,
        service: Service[Any],
        kafka: Kafka,
        sink: CommandSink | None,
        periods: Periods | None = None,
        broker: MemoryBroker | None = None,
    ) -> None:
        super().__init__(service, kafka, periods=periods)
        if sink is not None:
            self._sinks[self.service_name] = sink
        self._in_memory, self._broker = sink is not None, broker
        self._is_over = False

    def _check_usable(self) -> None:
        """Check that the block of ``local`` is not over.

        Raises:
            LocalError: the block is over, so its services have stopped.
        """
        if self._is_over:
            raise LocalError(
                "the block `with local(...) as client:` is over, and its services have stopped: write inside the block"
            )

    def state_reader(self, service: str) -> StateReader:
        """Return a reader for the states of a service, in memory or on Kafka."""
        return super().state_reader(service) if self._broker is None else MemoryGroupStates(self._broker, service)

    def reader(self, service: Service[S]) -> Reader[S]:
        """Return a reader for the dialogs of a service, in memory or on Kafka."""
        if self._broker is None:
            return super().reader(service)
        return Reader.over(service, MemoryGroupStates(self._broker, service.name), self._periods)

    def feed(
        self, topic: str, key: Text | None, value: Text | None, *, headers: PublicationHeaders | None = None
    ) -> None:
        """Append a record to a plain topic in memory, as another program does on Kafka. See ``Service.from_topic``.

        Raises:
            LocalError: no service here reads the topic, an argument has a wrong type, or the topic is on Kafka: use a producer there.
            BodyTooLarge: the record has more than 1,000,000 bytes.
        """
        self._check_usable()
        if self._broker is None:
            raise LocalError("feed is for topics in memory: on Kafka, append the record with a producer of your own")
        append_plain(self._broker, topic, publication(topic, key, value, headers))

    def finish(self) -> None:
        """Note that the block of ``local`` is over."""
        self._is_over = True

    def close(self) -> None:
        """Close the connection to Kafka. In memory there is none. Inside the block of ``local`` the client can be used again."""
        if not self._in_memory:
            super().close()


class LocalBlock(AbstractContextManager[LocalClient]):
    """The block of ``local``. Its services start at the beginning of the ``with`` block, and stop at its end."""

    def __init__(self, running: AbstractContextManager[LocalClient]) -> None:
        self._running = running

    def __enter__(self) -> LocalClient:
        return self._running.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Stop the services."""
        return self._running.__exit__(kind, error, trace)

    async def __aenter__(self) -> NoReturn:
        """Refuse ``async with``.

        Raises:
            LocalError: always; the message shows what to write.
        """
        raise LocalError(
            "local(...) starts with a plain `with`, also in async code: `with local(...) as client:`. Inside it, "
            "`async with client.begin_dialog(...) as dialog:` and `await client.request(...)` work"
        )

    async def __aexit__(self, *exc: object) -> None:
        """Do nothing, because ``__aenter__`` refuses."""

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse the use of the block as a client.

        Raises:
            AttributeError: always; the message shows what to write.
        """
        raise AttributeError(
            f"local(...) is a block, not the client: write `with local(...) as client:` and use client.{name}"
        )


def local(
    *services: Service[Any],
    kafka: Kafka | None = None,
    initiates: Sequence[Contract] = (),
    name: str = CLIENT,
    settings: WorkerSettings | None = None,
) -> LocalBlock:
    """Run services in this process for the length of a ``with`` block, whose client speaks for a service of its own.

    ``with local(orders) as client:`` is the form, also in async code. The client's service has the name ``name``.

    Without ``kafka``, everything is in memory, and is gone at the end of the block. With ``kafka``, the services use Kafka's topics,
    and missing topics are created.

    Args:
        services: services to run here. With ``kafka``, no service is needed.
        kafka: the cluster.
        initiates: further contracts under which the client may begin dialogs, with services that run elsewhere.
        name: name of the client's service. Processes that use ``local`` on one Kafka at the same time need different names.
            Otherwise the answer to one process may arrive at another.
        settings: settings of the workers.

    Raises:
        DeclarationError: a service has no handler for a message type that it may receive, an argument has a wrong type, or two services
            have one name.
        LogError: Kafka cannot be reached.
    """
    return LocalBlock(_running(services, kafka, initiates, name, settings or WorkerSettings()))


@contextmanager
def _running(
    services: Sequence[Service[Any]],
    kafka: Kafka | None,
    initiates: Sequence[Contract],
    name: str,
    settings: WorkerSettings,
) -> Iterator[LocalClient]:
    client_service = _client_service(as_services("local", services), initiates, name)
    if kafka is not None:
        check_kafka(kafka)
    everyone = (*services, client_service)
    if kafka is None:
        address, broker = Kafka("memory"), MemoryBroker(SystemClock())
        memory: MemoryBroker | None = broker
        for service in everyone:
            broker.create_service(service.name, 1, service.declaration().retries)
            for topic in (*service.publishes, *service.feeds):
                broker.create_topic(topic, 1)
        sink: CommandSink | None = MemoryCommands(broker, name)
        connect = _in_memory(broker)
    else:
        memory = None
        address, sink, connect = kafka, None, _on_kafka(kafka, everyone, settings.periods)
    workers = [
        Worker(service, connect(service.name), MemoryStores(), settings=settings, namespace=address.namespace)
        for service in everyone
    ]
    feeders: list[Feeder] = []
    for service in everyone:
        if memory is None:
            feeders += kafka_feeders(service, address, settings)
        else:
            limit = settings.limits.record_body
            feeders += [MemoryFeeder(memory, service.name, feed, limit) for feed in service.feeds.values()]
    with Crew(workers, address, feeders) as crew:
        crew.await_ready(START_SECONDS)
        with LocalClient(client_service, address, sink, settings.periods, memory) as client:
            try:
                yield client
            finally:
                client.finish()


def _client_service(services: Sequence[Service[Any]], initiates: Sequence[Contract], name: str) -> Service[Any]:
    contracts = {contract.name: contract for contract in as_contracts("initiates", initiates)}
    contracts |= {contract.name: contract for service in services for contract in service.accepts.values()}
    if name in {service.name for service in services}:
        raise DeclarationError(
            f"the client of local speaks for a service of its own, which cannot be the service {name!r} that runs here: "
            "leave name= out, or give another name"
        )
    service: Service[Any] = Service(
        name,
        initiates=list(contracts.values()),
        ignores=[received for contract in contracts.values() for received in contract.by_target],
    )
    service.temporary = True
    service.trace_with(next((it.tracing for it in services if it.tracing is not None), None))
    return service


def _in_memory(broker: MemoryBroker) -> Callable[[str], Callable[[], Connection]]:
    return lambda service: lambda: MemoryConnection(broker, service)


def _on_kafka(
    kafka: Kafka, services: tuple[Service[Any], ...], periods: Periods
) -> Callable[[str], Callable[[], Connection]]:
    from conversations.kafka.admin import apply
    from conversations.kafka.connection import KafkaConnection

    *others, client = services
    try:
        apply(kafka, [service.declaration() for service in services], periods=periods)
    except AnotherProgram as failure:
        if failure.service != client.name:
            raise
        example = f"{others[0].name}.client" if others else "my.client"
        raise DeclarationError(
            f"the client of another program has the name {client.name!r} on this Kafka: give this client a name of its own, for example "
            f"local(..., name={example!r})"
        ) from failure
    return lambda service: lambda: KafkaConnection(kafka, service, periods=periods)
