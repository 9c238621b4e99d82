"""The same work through our public API, as a user would write it: ``python -m bench.contenders.our_loop JOB``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from bench.orders import Order, Receipt
from bench.profiled import INLINE, Profilers
from bench.stopwatch import Stopwatch, report
from bench.workload import Job
from conversations import Contract, Dialog, Kafka, MessageType, Service, WorkerSettings, form
from conversations.interpreter import relax
from conversations.kafka.connection import KafkaConnection
from conversations.ports import ANY_SIZE, Record
from conversations.scheduler import Inline
from conversations.stores.memory import MemoryStores
from conversations.stores.rocksdb import RocksStores
from conversations.worker import Worker

ASKING, ANSWERING = "asking", "answering"
"""The service whose messages are made beforehand, and the service that is measured."""


PATIENT: dict[str, Any] = {"patience": timedelta(seconds=10)}
"""Settings for a profile. Handlers are slower under a profiler.

With the default of the setting ``patience``, the profile would show the cost of waiting rows.
"""


ORDERS = Contract("Orders", sent_by_initiator=[Order], sent_by_target=[Receipt])

OPAQUE_ORDER = MessageType("Order", "bytes")
OPAQUE = Contract("Orders", sent_by_initiator=[OPAQUE_ORDER], sent_by_target=[MessageType("Receipt", "bytes")])


def opaque_service() -> Service[Any]:
    """Return a service that answers each message of bytes with the same bytes."""
    service = Service(ANSWERING, accepts=[OPAQUE])

    @service.on(OPAQUE_ORDER)
    def answer(body: bytes, dialog: Dialog[Any]) -> None:
        dialog.send(body)

    return service


def typed_service() -> Service[Any]:
    """Return a service that validates each order and answers with a receipt."""
    service = Service(ANSWERING, accepts=[ORDERS])

    @service.on(Order)
    def answer(order: Order, dialog: Dialog[Any]) -> None:
        dialog.send(Receipt(number=order.number, customer=order.customer, item=order.item, quantity=order.quantity))

    return service


class TimedConnection(KafkaConnection):
    """A connection that starts the watch when the first record arrives. It adds one comparison to each poll."""

    watch: Stopwatch

    def poll(self, timeout: float, limit: int, size: int = ANY_SIZE) -> Sequence[Record]:
        records = super().poll(timeout, limit, size)
        if records:
            self.watch.start()
        return records


def service_of(job: Job) -> Service[Any]:
    """Return the service of the contender named ``ours_STORE`` or ``ours_STORE_pydantic``."""
    return typed_service() if job.contender.endswith("pydantic") else opaque_service()


def make_worker(job: Job, service: Service[Any], watch: Stopwatch) -> Worker:
    """Return a worker. Its state is in memory if the contender's name contains ``memory``, else in RocksDB."""
    kafka = Kafka(job.bootstrap, namespace=job.space)

    def connect() -> KafkaConnection:
        connection = TimedConnection(kafka, ANSWERING)
        connection.watch = watch
        return connection

    settings = WorkerSettings(batch=job.workload.batch, concurrency=job.concurrency)
    return Worker(
        service,
        connect,
        MemoryStores() if "memory" in job.contender else RocksStores(Path(job.directory)),
        settings=replace(settings, **PATIENT) if job.profile else settings,
        scheduler=Inline() if job.profile and INLINE else None,
        namespace=job.space,
    )


def run(job: Job, service: Service[Any], messages: int | None = None) -> None:
    """Work until ``messages`` messages (by default all) are handled and committed. Then report."""
    wanted = job.workload.messages if messages is None else messages
    relax()  # `conversations run` and run() do this too, in their own processes
    watch, profilers = Stopwatch(), Profilers(wanted=job.profile)
    worker = make_worker(job, service, watch)
    while not watch.running:
        worker.step(0.1)
        if not worker.partitions:
            continue
        profilers.start()
    while worker.counts.handled < wanted or worker.busy():
        worker.step(0.1)
        if worker.counts.handled >= job.workload.dialogs:
            watch.opened(worker.counts.handled)
    elapsed, commits = watch.elapsed(), worker.counts.commits
    late = sum(partition.waiting.drawn for partition in worker.partitions.values())
    profilers.stop(job.workload.messages)
    worker.close()
    report(worker.counts.handled, elapsed, commits, late=late, lap=watch.lap, form=form.name())


if __name__ == "__main__":
    told = Job.from_json(sys.argv[1])
    run(told, service_of(told))
