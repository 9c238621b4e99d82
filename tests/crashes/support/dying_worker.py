"""A worker process that ends itself at named points of its work; arguments: bootstrap, namespace, slot, orders, state, batch.

The environment's DEADLY, as in ``decode-7-exit``, has every one of them end when it decodes, or commits, the record of number 7.

The points are seams every worker has: its log, its restores, its store. The product knows nothing of them.
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
from conversations.ports import Listener, Produced, Restored
from conversations.protocol import rows
from conversations.stores.rocksdb import RocksStore, RocksStores
from conversations.worker import Worker, intake
from tests.crashes.support.counting_services import die_if_told, echoer


class Mortal(KafkaConnection):
    """Dies around commits, when told."""

    orders: Path

    def join(self, listener: Listener) -> None:
        self._revoking = False
        super().join(Leaving(listener, self))

    def restore(self, partition: int, since: int | None) -> KafkaRestore:
        restore = super().restore(partition, since)
        restore.advance = Slow(restore, self.orders).advance  # type: ignore[method-assign]  # a seam, in this process only
        return restore

    def commit(self, outs: Sequence[Produced], offsets: Mapping[int, int]) -> Mapping[int, int]:
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
            return super().commit(outs, offsets)
        finally:
            transactions._decide = decide  # type: ignore[method-assign]
            die_if_told(self.orders, f"{point}-after")


ENDS: dict[str, Callable[[], object]] = {
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "exit": lambda: os._exit(3),
    "fault": lambda: ctypes.string_at(0),
}


class Deadly:
    """Ends the process at one point whenever it is at work on the record of one number."""

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

        def commit(connection: Mortal, outs: Sequence[Produced], offsets: Mapping[int, int]) -> Mapping[int, int]:
            if deadly._point == "commit" and deadly._taken:
                deadly._end()
            return deadly._commit(connection, outs, offsets)

        seams: list[tuple[Any, str, Any]] = [
            (intake, "read_headers", read),
            (intake, "take", take),
            (Mortal, "commit", commit),
        ]
        for where, name, what in seams:  # in this process only
            setattr(where, name, what)


def _work(outs: Sequence[Produced]) -> bool:
    """Whether a step carries more than positions."""
    return any(out[2] != rows.PARTITION for out in outs)


class Leaving:
    """Tells the log when the worker gives partitions back."""

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
    """Copies few rows at a time, and dies between two slices when told."""

    def __init__(self, restore: KafkaRestore, orders: Path) -> None:
        self._advance, self._orders = restore.advance, orders

    def advance(self, limit: int) -> Restored:
        part = self._advance(min(limit, 10))
        if part.rows and not part.done:
            die_if_told(self._orders, "restoring")
        return part


class Stores(RocksStores):
    """Dies before a committed step is applied to the local copy, when told."""

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
    """Run the echoer until SIGTERM."""
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
