"""A worker process that ends itself at named points of its work; arguments: bootstrap, namespace, slot, orders, state, batch.

A file in the directory ``orders`` with the name of a point makes a process kill itself at that point, once. The environment variable DEADLY,
for example ``decode-7-exit``, makes every process end itself when it decodes, or commits, the record with number 7.

The points are methods of objects that every worker has: its connection, its restores, its store. The product's code does not know the points.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from conversations import Kafka, WorkerSettings
from conversations.headers import read_headers
from conversations.kafka.connection import KafkaConnection
from conversations.kafka.restore import KafkaRestore
from conversations.ports import Listener, Produced, Restored, nothing
from conversations.protocol import rows
from conversations.stores.rocksdb import RocksStore, RocksStores
from conversations.worker import Worker, intake
from tests.crashes.support.counting_services import die_if_told, echoer


class Mortal(KafkaConnection):
    """A connection that kills its process before, during or after a commit, if there is an order."""

    orders: Path

    def join(self, listener: Listener) -> None:
        self._revoking = False
        super().join(Leaving(listener, self))

    def restore(self, partition: int, since: int | None) -> KafkaRestore:
        restore = super().restore(partition, since)
        restore.advance = Slow(restore, self.orders).advance  # type: ignore[method-assign]  # only in this process
        return restore

    def commit(
        self, outs: Sequence[Produced], offsets: Mapping[int, int], meanwhile: Callable[[], None] = nothing
    ) -> Mapping[int, int]:
        point = "revoking" if self._revoking else "committing" if _work(outs) else "starting"
        transactions = self._transactions
        assert transactions is not None
        decide = transactions._decide

        def open_transaction(outs: Sequence[Produced]) -> None:
            die_if_told(self.orders, f"{point}-open")
            decide(outs)

        transactions._decide = open_transaction  # type: ignore[method-assign]
        die_if_told(self.orders, f"{point}-before")
        try:
            return super().commit(outs, offsets, meanwhile)
        finally:
            transactions._decide = decide  # type: ignore[method-assign]
            die_if_told(self.orders, f"{point}-after")


ENDS: dict[str, Callable[[], object]] = {
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "exit": lambda: os._exit(3),
    "fault": lambda: ctypes.string_at(0),
}


class Deadly:
    """Ends the process at one point whenever the process works on the record with one number."""

    def __init__(self, order: str) -> None:
        self._point, number, how = order.split("-")
        self._end, self._body = ENDS[how], b'"n":%s}' % number.encode()
        self._taken = False
        self._read, self._take, self._commit = read_headers, intake.take, Mortal.commit

    def install(self) -> None:
        deadly = self

        def read(record: Any) -> Any:
            if deadly._point == "decode" and deadly._body in record.value().replace(b" ", b""):
                deadly._end()
            return deadly._read(record)

        def take(partition: Any, record: Any) -> None:
            deadly._taken = deadly._taken or deadly._body in record.value().replace(b" ", b"")
            deadly._take(partition, record)

        def commit(
            connection: Mortal,
            outs: Sequence[Produced],
            offsets: Mapping[int, int],
            meanwhile: Callable[[], None] = nothing,
        ) -> Mapping[int, int]:
            if deadly._point == "commit" and deadly._taken:
                deadly._end()
            return deadly._commit(connection, outs, offsets, meanwhile)

        seams: list[tuple[Any, str, Any]] = [
            (intake, "read_headers", read),
            (intake, "take", take),
            (Mortal, "commit", commit),
        ]
        for where, name, what in seams:  # only in this process
            setattr(where, name, what)


def _work(outs: Sequence[Produced]) -> bool:
    """Return True if a step writes more than partition rows."""
    return any(out[2] != rows.PARTITION for out in outs)


class Leaving:
    """A listener that tells the connection while the worker gives partitions back."""

    def __init__(self, listener: Listener, connection: Mortal) -> None:
        self._listener, self._connection = listener, connection

    def assigned(self, partitions: Sequence[int]) -> None:
        self._listener.assigned(partitions)

    def revoked(self, partitions: Sequence[int]) -> None:
        self._connection._revoking = True
        self._listener.revoked(partitions)
        self._connection._revoking = False
        die_if_told(self._connection.orders, "revoked")

    def lost(self, partitions: Sequence[int]) -> None:
        self._listener.lost(partitions)


class Slow:
    """Restores at most ten rows at a time, and kills the process between two slices, if there is an order."""

    def __init__(self, restore: KafkaRestore, orders: Path) -> None:
        self._advance, self._orders = restore.advance, orders

    def advance(self, limit: int) -> Restored:
        part = self._advance(min(limit, 10))
        if part.rows and not part.done:
            die_if_told(self._orders, "restoring")
        return part


class Stores(RocksStores):
    """Stores that kill the process before a committed step is applied to the local copy, if there is an order."""

    orders: Path

    def open(self, partition: int, state_topic_id: str) -> RocksStore:
        store = super().open(partition, state_topic_id)
        apply, orders = store.apply, self.orders

        def dying(changed: Iterable[tuple[bytes, bytes | None]], checkpoint: int) -> None:
            found = list(changed)
            if any(key[:1] == rows.GROUP for key, _ in found):
                die_if_told(orders, "applying")
            apply(found, checkpoint)

        store.apply = dying  # type: ignore[method-assign, assignment]
        return store


def main(bootstrap: str, namespace: str, slot: str, orders: str, state: str, batch: str) -> None:
    """Run a worker of the echoer until SIGTERM."""
    kafka, told = Kafka(bootstrap, namespace=namespace), Path(orders)

    def connection() -> Mortal:
        made = Mortal(kafka, "echoer", slot=slot)
        made.orders = told
        return made

    stores = Stores(Path(state))
    stores.orders = told
    settings = WorkerSettings(batch=int(batch), slot=slot)
    worker = Worker(echoer(told), connection, stores, settings=settings, namespace=namespace)

    def stop(*_: Any) -> None:
        worker.stop()

    signal.signal(signal.SIGTERM, stop)
    logging.basicConfig(level=logging.INFO)
    if order := os.environ.get("DEADLY"):
        Deadly(order).install()
    worker.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
