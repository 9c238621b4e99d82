"""One worker process under `conversations run`. The supervisor starts it and sends it orders on standard input.

The orders are JSON lines. The first order is the ``Spec``. When every process has loaded its target, ``{"start": SLOT}`` follows. Later,
``{"stop": true}`` may follow. If the input ends, the supervisor has died, and the process stops by itself. Reports to the supervisor
go through a separate pipe, so that handlers may print.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO

from conversations.config import JSON, Kafka, WorkerSettings
from conversations.crew import Crew, kafka_feeders, kafka_worker
from conversations.durations import SECOND
from conversations.errors import DeclarationError, KafkaUnreachable, LogError, LoginRefused
from conversations.feeds import Feeder
from conversations.interpreter import relax
from conversations.service import Service
from conversations.worker import Worker
from conversations_ops.console import log_lines
from conversations_ops.console.search_path import search_here
from conversations_ops.host import slots
from conversations_ops.host.targets import HandlerLoop, TargetFailed, entered
from conversations_ops.settings.file import Line
from conversations_ops.settings.given import Given, differences, shortened

log = logging.getLogger("conversations.run")

REPORT_EVERY = 1.0
"""Seconds between two status reports."""
SHOWN: dict[str, Any] = {
    "kafka": None, "clock_off_seconds": None, "brake_on": None, "brakes": None, "blocked": None, "idle_seconds": None, "restoring": None,
    "aside": [], "queue_partitions": None, "partitions": [], "counts": {}, "durations": {}, "feeds": [],
}  # fmt: skip
"""Fields of a status report that the health page and the metrics have, each with its value while there is no report."""
LEAVING = 10.0
"""Seconds for the last commit and for leaving the group. This time begins when the time for handlers (``revocation``) is over."""
SPARE = 5.0
"""Seconds that a process may stand still beyond the longest step of a healthy worker."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spec:
    """The task of a worker process. The supervisor sends the task as JSON."""

    target: str
    bootstrap: str
    namespace: str
    settings: dict[str, str] = dataclasses.field(repr=False)
    """Settings for librdkafka; passwords may be among them."""
    product: Sequence[Sequence[str]] = ()
    """Settings of the product that were given. Each setting has three texts: the place where it was given, its name and its value."""
    state: str | None
    """Directory of the local copies. If it is None, they are kept in memory."""
    slots: str
    """Directory of the files that reserve slots."""
    base: str
    """First part of the slots' names."""
    log_level: str
    log_json: bool


class Ended:
    """The ways in which a worker process can end. The supervisor decides whether the other processes go on."""

    STOPPED = "stopped"
    DECLARATION = "declaration"
    """The service or its settings are not valid: the worker can never work."""
    UNREACHABLE = "unreachable"
    """No Kafka broker answered before the worker had joined its group."""
    REFUSED = "refused"
    """Kafka refused the worker before it had joined its group: topics or rights are missing."""
    FAILED = "failed"


class Reports:
    """The pipe to the supervisor."""

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def send(self, event: str, **facts: object) -> None:
        """Send a report to the supervisor; do nothing if the supervisor is gone."""
        line = json.dumps({"event": event, **facts}).encode() + b"\n"
        with self._lock, contextlib.suppress(OSError):
            while line:
                line = line[os.write(self._descriptor, line) :]


class Orders:
    """The orders to this process. An order comes from the supervisor or from a signal."""

    def __init__(self, source: BinaryIO, grace: float) -> None:
        self._source = source
        self.grace = grace
        """Seconds that this process has to stop after the end of the input. Then the process exits without cleaning up."""
        self._changed = threading.Condition()
        self._start: str | None = None
        self._stopping = False
        self._stop: Callable[[], None] = lambda: None

    def listen(self) -> None:
        """Begin to read the orders, in a thread."""
        threading.Thread(target=self._follow, name="orders", daemon=True).start()

    def _follow(self) -> None:
        for line in self._source:
            order = json.loads(line)
            if "start" in order:
                with self._changed:
                    self._start = order["start"]
                    self._changed.notify_all()
            else:
                self.stop()
        self.stop()
        time.sleep(self.grace)
        os._exit(1)  # the supervisor would kill a process that does not stop, but the supervisor is gone

    def stop(self) -> None:
        """Ask this process to stop soon."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
            stop = self._stop
        stop()

    def await_start(self) -> str | None:
        """Wait for the order to start, and return the slot in it. Return None if the process is told to stop instead."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or self._start is not None)
            return None if self._stopping else self._start

    def on_stop(self, stop: Callable[[], None]) -> None:
        """Register the function ``stop``, which the order to stop calls. If this order has come already, call ``stop`` now."""
        with self._changed:
            self._stop = stop
            now = self._stopping
        if now:
            stop()


def main(descriptor: int) -> int:
    """Run one worker until an order or a signal stops it. Return 0 after a stop, and 1 after a failure."""
    source = os.fdopen(os.dup(0), "rb")
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - programs that handlers start inherit descriptor 0
        os.dup2(nothing.fileno(), 0)
    reports = Reports(descriptor)
    spec = Spec(**json.loads(source.readline()))
    log_lines.configure(spec.base, level=spec.log_level, as_json=spec.log_json)
    orders = Orders(source, grace(WorkerSettings().revocation))
    orders.listen()
    # A terminal that closes sends SIGHUP to all processes. The supervisor orders a clean stop.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGINT):
        # Call ``stop`` in another thread, because the signal may have interrupted the thread that holds the lock.
        signal.signal(number, lambda *_: threading.Thread(target=orders.stop, daemon=True).start())
    search_here()
    kind, text = _work(spec, orders, reports)
    reports.send("ended", kind=kind, text=text)
    return 0 if kind == Ended.STOPPED else 1


def grace(revocation: timedelta) -> float:
    """Return the seconds that a worker has for stopping. A worker that needs more time is treated as hung."""
    return revocation.total_seconds() + LEAVING


def patience(settings: WorkerSettings) -> float:
    """Return the seconds for which a process may stand still.

    A healthy worker may finish no step while handlers finish before a partition moves, and then until Kafka counts as unreachable. So a shorter
    ``replaced_after`` is lengthened.
    """
    longest = settings.revocation.total_seconds() + max(LEAVING, settings.periods.unreachable_after / SECOND)
    return max(settings.replaced_after.total_seconds(), longest + SPARE)


def _work(spec: Spec, orders: Orders, reports: Reports) -> tuple[str, str]:
    try:
        with HandlerLoop() as loop, entered(spec.target, loop) as (service, own):
            service.check()
            settings = shortened(Given(tuple(Line(*it) for it in spec.product)).worker_settings(own))
            orders.grace = grace(settings.revocation)
            reports.send(
                "loaded",
                service=service.name,
                grace=orders.grace,
                patience=patience(settings),
                settings=differences(settings),
            )
            preferred = orders.await_start()
            if preferred is not None:
                return _hold(spec, settings, (service, loop, preferred), (orders, reports))
    except TargetFailed as error:
        return Ended.FAILED, str(error)
    except DeclarationError as error:
        return Ended.DECLARATION, str(error)
    except Exception as error:
        log.exception("%s failed before its worker started, or after its worker ended", spec.target)
        return Ended.FAILED, repr(error)
    return Ended.STOPPED, ""


def _hold(
    spec: Spec,
    settings: WorkerSettings,
    what: tuple[Service[Any], HandlerLoop, str],
    ends: tuple[Orders, Reports],
) -> tuple[str, str]:
    service, loop, preferred = what
    orders, reports = ends
    slot, taken = slots.take(Path(spec.slots) / service.name, spec.base, preferred)
    with taken:
        as_json = spec.log_json or settings.log_format == JSON
        log_lines.configure(f"{service.name} {slot}", level=spec.log_level, as_json=as_json)
        kafka = Kafka(spec.bootstrap, namespace=spec.namespace, settings=spec.settings)
        directory = None if spec.state is None else Path(spec.state) / service.name / slot
        settings = dataclasses.replace(settings, slot=slot)
        worker = kafka_worker(service, kafka, settings, state_directory=directory, loop=loop.made)
        feeders = kafka_feeders(service, kafka, settings)
        reports.send("started", slot=slot)
        relax()
        try:
            with Crew([worker], kafka, feeders) as crew, _reported(worker, feeders, reports):
                orders.on_stop(crew.stop)
                crew.await_end()
        except Exception as error:  # noqa: BLE001 - classified, logged and reported
            return _judge(error, worker)
    return Ended.STOPPED, ""


def _judge(error: Exception, worker: Worker) -> tuple[str, str]:
    if isinstance(error, DeclarationError):
        return Ended.DECLARATION, str(error)
    if isinstance(error, LogError) and not worker.joined:
        there = isinstance(error, LoginRefused) or not isinstance(error, KafkaUnreachable)
        return Ended.REFUSED if there else Ended.UNREACHABLE, str(error)
    log.error("the worker failed: %s", error, exc_info=error)
    return Ended.FAILED, f"{type(error).__name__}: {error}"


@contextlib.contextmanager
def _reported(worker: Worker, feeders: Sequence[Feeder], reports: Reports) -> Iterator[None]:
    """Report the condition of the worker and of its feeds once a second while the block runs."""
    over = threading.Event()

    def report() -> None:
        while True:
            reports.send("status", **worker.condition(), feeds=[feeder.condition() for feeder in feeders])
            if over.wait(REPORT_EVERY):
                return

    thread = threading.Thread(target=report, name="reports", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
