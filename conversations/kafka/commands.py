"""Appends the commands of clients to a service. A command is one confirmed record, without a transaction and without state."""

from __future__ import annotations

import ctypes
import os
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from queue import SimpleQueue
from threading import Event, Lock, Thread, current_thread
from time import monotonic
from typing import Any
from weakref import WeakSet

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from conversations.config import Kafka
from conversations.errors import DeclarationError, LogError, NotAccepted
from conversations.kafka.catalog import CatalogReader
from conversations.kafka.clients import Admin, describe_topics, log, make_producer
from conversations.kafka.failures import describe, ends_producer, producer_forbidden
from conversations.ports import Headers
from conversations.protocol.admission import unknown_service
from conversations.protocol.topics import COMMANDS, DECISIONS, partition_of, service_topic

SERVE = 0.2
"""Maximum number of seconds that the thread for delivery reports waits before it checks whether it must end."""
CROWDED = 0.01
"""The same maximum, in seconds, as long as commands wait for room in the producer's queue."""
AT_ONCE = 2_000_000
"""Bytes of a command that go at once."""
PACE = 32_000_000
"""Bytes of the rest that go in a second.

A larger command is in many records. The commands of others in the same partition that come behind them wait until the service has read all of these records. So the
records do not come faster than a service reads them, and the commands of others go in between.
"""
WAITING = 10_000
"""Maximum number of commands that may wait for the first connection."""
ANSWERED_IN = 8_000
"""Milliseconds within which a broker must confirm a record. Then the producer asks another broker, which may know a new leader."""
GROUPED = 5
"""Milliseconds that the producer of decisions waits for more records."""
DELIVERY_TIMEOUT = 30_000
"""Milliseconds after which the producer gives up on a record that no broker has confirmed."""


class _Command:
    """One command on its way, and the future that its sender waits for."""

    __slots__ = ("_began", "_left", "_taken", "deadline", "future", "headers", "is_new", "key", "to", "values", "waits")

    def __init__(self, key: bytes, values: Sequence[bytes], headers: Headers | None, timeout: float, to: str) -> None:
        self.key, self.headers = key, headers
        self.values = deque(values)
        """The values of the records that the producer does not have yet."""
        self._left = len(values)
        self._began, self._taken = 0.0, 0
        self.is_new, self.waits = True, False
        """True before its service was looked at; and while the thread for delivery reports is to go on with it."""
        self.to = to
        """The service that the catalog must name; empty if the command needs no service."""
        self.deadline = monotonic() + timeout + sum(map(len, values)) / PACE
        self.future: Future[None] = Future()
        self.future.set_running_or_notify_cancel()  # a record under way cannot be cancelled

    def refuse(self, why: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(why)

    @property
    def is_over(self) -> bool:
        """True if the producer has all records, or gets no more."""
        return not self.values or self.future.done()

    @property
    def may_go_on(self) -> bool:
        """True if the producer may get the next record now."""
        return self._taken <= AT_ONCE + PACE * (monotonic() - self._began)

    def take(self) -> None:
        """Note that the producer has the next record."""
        self._began = self._began or monotonic()
        self._taken += len(self.values.popleft())

    def confirm(self) -> None:
        """Note that a record is confirmed."""
        self._left -= 1
        if not self._left and not self.future.done():
            self.future.set_result(None)


class _Connection:
    """A producer, the thread that serves its delivery reports, the catalog, and the partition count of the commands topic."""

    def __init__(self, kafka: Kafka, service: str, kind: str) -> None:
        self.pid = os.getpid()
        self.service = service
        self.topic = service_topic(kafka.namespace, service, kind)
        admin = Admin(kafka)
        self._catalog = CatalogReader(kafka, admin)
        count = self._catalog.read().partitions(service)
        if count is None:
            raise DeclarationError(f"service {service!r} is not in the catalog: run 'conversations apply' for it")
        if kind == DECISIONS:
            _check_there(kafka, admin, service, self.topic)
        self.count = count
        # A client waits for each record, so its producer waits for no other. Records of several threads are still grouped into batches. An
        # operator's tool gives back hundreds of letters at once, and one request for each would keep the broker busy.
        safe = {"acks": "all", "message.timeout.ms": DELIVERY_TIMEOUT}
        preferred = {
            "linger.ms": 0 if kind == COMMANDS else GROUPED,
            "message.max.bytes": 2_000_000,
            "socket.timeout.ms": ANSWERED_IN,
        }
        self.producer: Producer = make_producer(kafka, safe, preferred)
        self._lock = Lock()
        self._lines: dict[bytes, deque[_Command]] = {}
        """By key, the commands of which the producer does not have all records. Those of one key, and so of one dialog, go one after the other."""
        self.lost: KafkaError | None = None
        """The fatal error of the producer, or None. After a fatal error, the producer accepts no more records."""
        self._looks: SimpleQueue[_Command | None] = SimpleQueue()
        """Commands whose service the catalog did not name at its last reading."""
        self._stop = Event()
        self._looker = Thread(target=self._look_up_all, name=f"looks up services for {service}", daemon=True)
        self._looker.start()
        self._thread = Thread(target=self._serve, name=f"commands of {service}", daemon=True)
        self._thread.start()

    def append(self, command: _Command) -> None:
        """Give a command to the producer without waiting. The thread for delivery reports goes on with it if it is large, or has no room.

        If the command needs a service that the catalog did not name, another thread reads the catalog again first.
        """
        with self._lock:
            line = self._lines.setdefault(command.key, deque())
            line.append(command)
            is_first = line[0] is command
            command.waits = not is_first
        if is_first:
            self._begin(command)
        if self._stop.is_set():  # ``close`` came first: nobody goes on any more
            self._refuse_lines()

    def _begin(self, command: _Command) -> bool:
        """Begin with a command. Return False if the producer has no room."""
        command.is_new = False
        if command.to and self._catalog.known(command.to) is None:
            self._looks.put(command)
            return True
        return self._go_on(command)

    def _go_on(self, command: _Command) -> bool:
        """Give the producer what it may have of a command now. Return False if the producer has no room."""
        has_room = self._produce(command)
        self._settle(command)
        return has_room

    def _settle(self, command: _Command) -> None:
        """Let the next command of a key come, or let the thread for delivery reports go on with this one."""
        with self._lock:
            line = self._lines.get(command.key)
            if not command.is_over:
                command.waits = True
            elif line and line[0] is command:
                line.popleft()
                if not line:
                    del self._lines[command.key]

    def _look_up_all(self) -> None:
        """Look up services for the commands in ``_looks``, one after the other. Ends after ``None``."""
        while (command := self._looks.get()) is not None:
            try:
                self._look_up(command)
            except Exception as error:  # noqa: BLE001 - the sender waits for the future
                command.refuse(error)
                self._settle(command)

    def _look_up(self, command: _Command) -> None:
        try:
            known = self._catalog.read().services
        except LogError as error:
            log.info(
                "the catalog could not be read, so a dialog with %s begins unchecked: %s",
                command.to,
                error,
                extra={"service": self.service},
            )
            known = None
        if known is not None and command.to not in known:
            command.refuse(unknown_service(command.to, known))
        self._go_on(command)

    def close(self, timeout: float) -> None:
        until = monotonic() + timeout
        while self._lines and monotonic() < until and self._thread.is_alive():
            self._stop.wait(CROWDED)
        self.producer.flush(max(0.0, until - monotonic()))
        self._stop.set()
        self._looks.put(None)
        self._looker.join(max(0.0, until - monotonic()))
        self._thread.join(SERVE + timeout)
        self._refuse_lines()

    def _refuse_lines(self) -> None:
        """Refuse the commands of which the producer does not have all records."""
        with self._lock:
            left = [command for line in self._lines.values() for command in line]
            self._lines.clear()
        for command in left:
            command.refuse(
                NotAccepted(f"commands of {self.service!r} were closed before all of their records were written")
            )

    def abandon(self) -> None:
        """Keep the producer for ever. A fork copied the producer, but not its threads, so freeing the copy would hang."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.producer))

    def _produce(self, command: _Command) -> bool:
        def report(error: KafkaError | None, _message: Message) -> None:
            if error is None:
                command.confirm()
            else:
                command.refuse(self._refused(error))

        produce: Any = self.producer.produce
        partition = partition_of(command.key, self.count)
        try:
            while not command.is_over and command.may_go_on:
                produce(self.topic, command.values[0], command.key, partition, report, None, 0, command.headers)
                command.take()
        except BufferError:
            return False
        except KafkaException as failure:
            self._look_at(failure)
            command.refuse(self._refused(failure.args[0]))
        return True

    def _serve(self) -> None:
        """Serve delivery reports, retry the commands that found no room, and go on with large commands.

        The thread ends when the connection is closed. It also ends when the producer is lost, has reported all its records, and
        has all records of all commands.
        """
        while not self._stop.is_set() and not (self.lost and not len(self.producer) and not self._lines):
            try:
                self.producer.poll(CROWDED if self._lines else SERVE)
            except KafkaException as failure:
                self._look_at(failure)
            self._go_on_with_all()

    def _go_on_with_all(self) -> None:
        """Go on with the first command of each key, until the producer has no room."""
        with self._lock:
            firsts = [line[0] for line in self._lines.values() if line[0].waits]
            for command in firsts:
                command.waits = False
        has_room = True
        for command in firsts:
            if has_room:
                has_room = self._begin(command) if command.is_new else self._go_on(command)
            else:
                self._settle(command)
            if not has_room and monotonic() > command.deadline:
                command.refuse(NotAccepted(f"too many commands for {self.service!r} wait for Kafka"))
                self._settle(command)

    def _look_at(self, failure: KafkaException) -> None:
        """Mark the producer as lost after a fatal error. For example, the producer may be unable to repeat its records after an outage.

        The thread of a sender may meet the error before the thread for delivery reports does.
        """
        error: KafkaError = failure.args[0]
        if ends_producer(error) and self.lost is None:
            self.lost = error
            log.warning("commands of %s go through a new producer: %s", self.service, describe(error))
            self.producer.purge(in_flight=False, blocking=False)

    def _refused(self, error: KafkaError) -> NotAccepted:
        need = f"WRITE on topic {self.topic} is missing, " if producer_forbidden(error) else ""
        return NotAccepted(f"Kafka refused a command for {self.service!r}: {need}{describe(error)}")


def _check_there(kafka: Kafka, admin: Admin, service: str, topic: str) -> None:
    """Check that a service has its topic of decisions. Without this check, a broker may make the topic, with a wrong partition count.

    Raises:
        DeclarationError: the topic is missing, because the service was last applied by an older release.
        LogError: the topic cannot be described.
    """
    with admin.request() as client:
        if describe_topics(client, kafka, [topic], need="WRITE")[topic] is None:
            raise DeclarationError(
                f"topic {topic} is missing: run 'conversations apply' of this release for {service}, and then update its workers"
            )


class CommandProducer:
    """Appends commands to one service, for all threads. It connects at its first use, and again after a fork.

    Args:
        kafka: the cluster and the namespace.
        service: the service that the commands are for.
        kind: ``COMMANDS`` for the commands of a client, or ``DECISIONS`` for those of an operator.
    """

    def __init__(self, kafka: Kafka, service: str, kind: str = COMMANDS) -> None:
        self._kafka, self._service, self._kind = kafka, service, kind
        self._lock = Lock()
        self._connection: _Connection | None = None
        self._connecting: Thread | None = None
        self._waiting: list[_Command] = []
        """Commands that wait for the connection."""
        _living.add(self)

    def append(self, key: bytes, value: bytes, headers: Headers | None = None, timeout: float = 10.0) -> None:
        """Append one command and wait until every in-sync replica has it.

        Raises:
            NotAccepted: the command was not confirmed within ``timeout`` seconds. It may still arrive. Appending the same
                command again is harmless.
            DeclarationError: the catalog does not name the service, or its topic of decisions is missing.
        """
        try:
            self.append_async(key, [value], headers, timeout).result(timeout)
        except NotYet:
            raise NotAccepted(
                f"Kafka at {self._kafka.bootstrap} did not confirm a command for {self._service!r} in {timeout:g} s"
            ) from None

    def append_async(
        self,
        key: bytes,
        values: Sequence[bytes],
        headers: Headers | None = None,
        timeout: float = 10.0,
        *,
        to: str = "",
    ) -> Future[None]:
        """Append the records of one command, in their order. The future ends when all are confirmed, or with ``NotAccepted`` or ``DeclarationError``.

        If the catalog does not name the service ``to``, the command is not appended, and the future ends with ``UnknownService``. While
        the catalog cannot be read, the command is appended.

        This method never waits. A background thread makes the first connection. If the producer's queue is full, the command
        waits up to ``timeout`` seconds for room.
        """
        command = _Command(key, values, headers, timeout, to)
        with self._lock:
            connection = self._connection
            if connection is not None and connection.lost:
                connection = self._connection = None
            if connection is None:
                if len(self._waiting) >= WAITING:
                    command.refuse(
                        NotAccepted(f"too many commands for {self._service!r} wait for the first connection")
                    )
                    return command.future
                self._waiting.append(command)
                if self._connecting is None:
                    self._connecting = Thread(target=self._connect, name=f"connects to {self._service}", daemon=True)
                    self._connecting.start()
        if connection is not None:
            connection.append(command)
        return command.future

    def _connect(self) -> None:
        connection: _Connection | None = None
        failure: Exception | None = None
        try:
            connection = _Connection(self._kafka, self._service, self._kind)
        except LogError as error:
            failure = NotAccepted(str(error))
            failure.__cause__ = error
        except Exception as error:  # noqa: BLE001 - every waiting command must fail with it
            failure = error
        with self._lock:
            wanted = self._connecting is current_thread()  # False if ``close`` was called meanwhile
            waiting: list[_Command] = []
            if wanted:
                self._connecting, self._connection = None, connection
                waiting, self._waiting = self._waiting, []
            if connection is not None:
                for command in waiting:  # under the lock, so that no later command goes first
                    connection.append(command)
        if connection is not None and not wanted:
            connection.close(0)
        if failure is not None:
            for command in waiting:
                command.refuse(failure)

    def close(self, timeout: float = 10.0) -> None:
        """Wait up to ``timeout`` seconds for records under way, and disconnect. The next append connects again."""
        with self._lock:
            connection, self._connection, self._connecting = self._connection, None, None
            waiting, self._waiting = self._waiting, []
        for command in waiting:
            command.refuse(NotAccepted(f"commands of {self._service!r} were closed before Kafka could be reached"))
        if connection is not None and connection.pid == os.getpid():
            connection.close(timeout)

    def forked(self) -> None:
        """Forget the connection in a child process. Python calls this after a fork."""
        # Another thread may have held the lock when the process was copied.
        self._lock = Lock()
        connection, self._connection = self._connection, None
        self._connecting, self._waiting = None, []  # the thread and its commands stayed in the parent
        if connection is not None:
            connection.abandon()


_living: WeakSet[CommandProducer] = WeakSet()


def _forked() -> None:
    for producer in list(_living):
        producer.forked()


os.register_at_fork(after_in_child=_forked)
