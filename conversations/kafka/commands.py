"""How clients append commands to a service: one confirmed record, no transaction, no state."""

from __future__ import annotations

import ctypes
import os
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any
from weakref import WeakSet

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from conversations.config import Kafka
from conversations.errors import DeclarationError, LogError, NotAccepted
from conversations.kafka.catalog import read_catalog
from conversations.kafka.clients import REQUEST_TIMEOUT, make_producer
from conversations.kafka.failures import describe
from conversations.ports import Headers
from conversations.protocol.topics import COMMANDS, partition_of, service_topic

SERVE = 0.2
"""Seconds the reporting thread waits at most before it looks whether it should end."""
DELIVERY_TIMEOUT = 30_000
"""Milliseconds after which a record that could not be handed over is given up."""


class _Connection:
    """A producer, the thread that serves its reports, and the partition count its records are spread over."""

    def __init__(self, kafka: Kafka, service: str, timeout: float) -> None:
        self.pid = os.getpid()
        self.topic = service_topic(kafka.namespace, service, COMMANDS)
        count = read_catalog(kafka, timeout=timeout).partitions(service)
        if count is None:
            raise DeclarationError(f"service {service!r} is not in the catalog: run 'conversations apply' for it")
        self.count = count
        # linger 0: a client waits for each record; what several threads append meanwhile is grouped all the same.
        safe = {"acks": "all", "message.timeout.ms": DELIVERY_TIMEOUT}
        self.producer: Producer = make_producer(kafka, safe, {"linger.ms": 0, "message.max.bytes": 2_000_000})
        self._stop = Event()
        self._thread = Thread(target=self._serve, name=f"commands of {service}", daemon=True)
        self._thread.start()

    def close(self, timeout: float) -> None:
        self.producer.flush(timeout)
        self._stop.set()
        self._thread.join(SERVE + timeout)

    def abandon(self) -> None:
        """Leave a producer inherited over a fork alone for ever: its threads stayed in the parent, so freeing it hangs."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.producer))

    def _serve(self) -> None:
        while not self._stop.is_set():
            self.producer.poll(SERVE)


class CommandProducer:
    """Appends commands to one service; connects at the first use, for all threads, and anew after a fork."""

    def __init__(self, kafka: Kafka, service: str) -> None:
        self._kafka, self._service = kafka, service
        self._lock = Lock()
        self._connection: _Connection | None = None
        _living.add(self)

    def append(self, key: bytes, value: bytes, headers: Headers | None = None, timeout: float = 10.0) -> None:
        """Append one command and wait until every in-sync replica has it.

        Raises:
            NotAccepted: not confirmed within ``timeout`` seconds; it may still arrive, the same again is harmless.
            DeclarationError: the catalog does not know the service.
        """
        deadline = monotonic() + timeout
        future = self.append_async(key, value, headers, timeout)
        try:
            future.result(max(0.0, deadline - monotonic()))
        except NotYet:
            raise NotAccepted(f"Kafka did not confirm a command for {self._service!r} in {timeout} s") from None

    def append_async(
        self, key: bytes, value: bytes, headers: Headers | None = None, timeout: float = 10.0
    ) -> Future[None]:
        """Append one command; the future ends when it is confirmed, or with ``NotAccepted``.

        Waits only for the first connection and for room in a full queue, at most ``timeout`` seconds.
        """
        future: Future[None] = Future()
        future.set_running_or_notify_cancel()  # a record under way cannot be called back
        deadline = monotonic() + timeout
        connection = self._connected(timeout)
        partition = partition_of(key, connection.count)

        def report(error: KafkaError | None, _message: Message) -> None:
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(self._refused(error))

        produce: Any = connection.producer.produce
        while True:
            try:
                produce(connection.topic, value, key, partition, report, None, 0, headers)
                return future
            except BufferError:
                if monotonic() > deadline:
                    future.set_exception(NotAccepted(f"too many commands for {self._service!r} wait for Kafka"))
                    return future
                connection.producer.poll(0.05)
            except KafkaException as failure:
                future.set_exception(self._refused(failure.args[0]))
                return future

    def close(self, timeout: float = 10.0) -> None:
        """Wait up to ``timeout`` seconds for what is under way; the next append connects again."""
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None and connection.pid == os.getpid():
            connection.close(timeout)

    def _connected(self, timeout: float) -> _Connection:
        with self._lock:
            if self._connection is None:
                try:
                    self._connection = _Connection(self._kafka, self._service, min(timeout, REQUEST_TIMEOUT))
                except LogError as failure:
                    raise NotAccepted(str(failure)) from failure
            return self._connection

    def _refused(self, error: KafkaError) -> NotAccepted:
        return NotAccepted(f"Kafka refused a command for {self._service!r}: {describe(error)}")

    def forked(self) -> None:
        """Begin anew in a child process; called by the fork itself."""
        # Another thread may have held the lock when the process was copied.
        self._lock = Lock()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abandon()


_living: WeakSet[CommandProducer] = WeakSet()


def _forked() -> None:
    for producer in list(_living):
        producer.forked()


os.register_at_fork(after_in_child=_forked)
