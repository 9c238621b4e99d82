"""One worker process under `conversations run`: started by the supervisor, told what to do on standard input.

Its orders are JSON lines: first the ``Spec``, then ``{"start": SLOT}`` once every process has loaded its target, then
perhaps ``{"stop": true}``. The end of the input means that the supervisor is gone, however it died: the process stops by
itself. What it has to say goes to a pipe of its own, so that handlers may print.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO

from conversations.config import Kafka, WorkerSettings
from conversations.crew import Crew, kafka_worker
from conversations.errors import DeclarationError, KafkaUnreachable, LogError, LoginRefused, StateUpgradeError
from conversations.interpreter import relax
from conversations.service import Service
from conversations.worker import Worker
from conversations_ops.console import log_lines
from conversations_ops.console.search_path import search_here
from conversations_ops.host import slots
from conversations_ops.host.targets import HandlerLoop, entered
from conversations_ops.settings.file import Line
from conversations_ops.settings.given import Given, differences, shortened

log = logging.getLogger("conversations.run")

REPORT_EVERY = 1.0
"""Seconds between two reports of how the worker is."""
LEAVING = 10.0
"""Seconds that committing and leaving the group may take, after the handlers had theirs."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spec:
    """The task of a worker process; travels as JSON."""

    target: str
    bootstrap: str
    namespace: str
    settings: dict[str, str] = dataclasses.field(repr=False)
    """Passed to librdkafka; with passwords."""
    product: Sequence[Sequence[str]] = ()
    """The product's settings that were given: place, name and value of each."""
    state: str | None
    """Directory of local state; None: in memory."""
    slots: str
    """Directory of the files that say which names are taken."""
    base: str
    """First part of the names."""
    log_level: str
    log_json: bool


class Ended:
    """How a worker process can end; what each means for the others is the supervisor's decision."""

    STOPPED = "stopped"
    DECLARATION = "declaration"
    """It can never work as declared."""
    STATE = "state"
    """Stored state does not fit the code."""
    UNREACHABLE = "unreachable"
    """No broker answered before the worker was in its group."""
    REFUSED = "refused"
    """Kafka said no before the worker was in its group: topics or rights are missing."""
    FAILED = "failed"


class Reports:
    """The pipe to the supervisor."""

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def send(self, event: str, **facts: object) -> None:
        """Report something; a supervisor that is gone hears nothing."""
        line = json.dumps({"event": event, **facts}).encode() + b"\n"
        with self._lock, contextlib.suppress(OSError):
            while line:
                line = line[os.write(self._descriptor, line) :]


class Orders:
    """The orders of the supervisor, or of a signal, to this process."""

    def __init__(self, source: BinaryIO, grace: float) -> None:
        self._source = source
        self.grace = grace
        """Seconds from the end of the input to the end of this process."""
        self._changed = threading.Condition()
        self._start: str | None = None
        self._stopping = False
        self._stop: Callable[[], None] = lambda: None

    def listen(self) -> None:
        """Follow the orders from now on, in a thread."""
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
        os._exit(1)  # nobody is left who would kill a process that does not stop

    def stop(self) -> None:
        """Stop soon."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
            stop = self._stop
        stop()

    def await_start(self) -> str | None:
        """Wait for the slot to start in; None when it is to stop."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or self._start is not None)
            return None if self._stopping else self._start

    def on_stop(self, stop: Callable[[], None]) -> None:
        """Call ``stop`` when the process is to stop, at once when it is already."""
        with self._changed:
            self._stop = stop
            now = self._stopping
        if now:
            stop()


def main(descriptor: int) -> int:
    """Run one worker until told otherwise; the exit code is for people who look at processes."""
    source = os.fdopen(os.dup(0), "rb")
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - a descriptor, to be what handlers' programs inherit
        os.dup2(nothing.fileno(), 0)
    reports = Reports(descriptor)
    spec = Spec(**json.loads(source.readline()))
    log_lines.configure(spec.base, level=spec.log_level, as_json=spec.log_json)
    orders = Orders(source, grace(WorkerSettings().revocation))
    orders.listen()
    for number in (signal.SIGTERM, signal.SIGINT):
        # Not in the handler itself: it may have interrupted the very thread that holds the lock.
        signal.signal(number, lambda *_: threading.Thread(target=orders.stop, daemon=True).start())
    search_here()
    kind, text = _work(spec, orders, reports)
    reports.send("ended", kind=kind, text=text)
    return 0 if kind == Ended.STOPPED else 1


def grace(revocation: timedelta) -> float:
    """Seconds after which a worker that was told to stop is not stopping."""
    return revocation.total_seconds() + LEAVING


def _work(spec: Spec, orders: Orders, reports: Reports) -> tuple[str, str]:
    try:
        with HandlerLoop() as loop, entered(spec.target, loop) as (service, own):
            service.check()
            settings = shortened(Given(tuple(Line(*it) for it in spec.product)).worker_settings(own))
            orders.grace = grace(settings.revocation)
            reports.send("loaded", service=service.name, grace=orders.grace, settings=differences(settings))
            preferred = orders.await_start()
            if preferred is not None:
                return _hold(spec, settings, (service, loop, preferred), (orders, reports))
    except DeclarationError as error:
        return Ended.DECLARATION, str(error)
    except Exception as error:
        log.exception("%s failed before its worker was made, or after", spec.target)
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
        log_lines.configure(f"{service.name} {slot}", level=spec.log_level, as_json=spec.log_json)
        kafka = Kafka(spec.bootstrap, namespace=spec.namespace, settings=spec.settings)
        directory = None if spec.state is None else Path(spec.state) / service.name / slot
        worker = kafka_worker(
            service, kafka, dataclasses.replace(settings, slot=slot), state_directory=directory, loop=loop.made
        )
        reports.send("started", slot=slot)
        relax()
        try:
            with Crew([worker], kafka) as crew, _reported(worker, reports):
                orders.on_stop(crew.stop)
                crew.await_end()
        except Exception as error:  # noqa: BLE001 - told apart, logged and reported
            return _judge(error, worker)
    return Ended.STOPPED, ""


def _judge(error: Exception, worker: Worker) -> tuple[str, str]:
    if isinstance(error, DeclarationError):
        return Ended.DECLARATION, str(error)
    if isinstance(error, StateUpgradeError):
        return Ended.STATE, str(error)
    if isinstance(error, LogError) and not worker.joined:
        there = isinstance(error, LoginRefused) or not isinstance(error, KafkaUnreachable)
        return Ended.REFUSED if there else Ended.UNREACHABLE, str(error)
    log.error("the worker failed: %s", error, exc_info=error)
    return Ended.FAILED, f"{type(error).__name__}: {error}"


@contextlib.contextmanager
def _reported(worker: Worker, reports: Reports) -> Iterator[None]:
    """Report once a second how the worker is."""
    over = threading.Event()

    def report() -> None:
        while True:
            reports.send("status", **condition(worker))
            if over.wait(REPORT_EVERY):
                return

    thread = threading.Thread(target=report, name="reports", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def condition(worker: Worker) -> dict[str, Any]:
    """How a worker is, as plain data."""
    context, unanswered = worker.context, worker.readiness.unanswered()
    with context.lock:
        partitions = [partition.lengths() for partition in list(worker.partitions.values())]
        counts = dataclasses.asdict(context.counts)
    return {
        "joined": worker.joined,
        "stopping": worker.stopping.is_set(),
        "restoring": worker.restoring,
        "clock_off_seconds": round(context.clock.off / 1_000_000, 3),
        "idle_seconds": max(0.0, (context.clock.now() - context.now) / 1_000_000),
        "partitions": partitions,
        "kafka": None
        if unanswered is None
        else {
            "unanswered_seconds": round(unanswered[0], 3),
            "trying": unanswered[1],
            "unreachable": worker.readiness.is_unreachable(),
        },
        "brake_on": context.brakes.on,
        "counts": counts,
    }


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
