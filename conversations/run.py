"""A function that runs services in this process until a signal or a failure stops them."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from conversations.config import Kafka, WorkerSettings, check_kafka
from conversations.crew import Crew, kafka_feeders, kafka_worker
from conversations.interpreter import relax
from conversations.service import Service, as_services


def run(
    *services: Service[Any],
    kafka: Kafka,
    concurrency: int | None = None,
    settings: WorkerSettings | None = None,
    state_dir: Path | str | None = None,
) -> None:
    """Run services in this process, each in its own worker thread, until SIGTERM, SIGINT or a failure.

    At the first signal, the workers give running handlers the time ``settings.revocation`` to finish. Then the workers commit, and leave
    their groups. A second signal calls the signal handler that was set before ``run``. Outside the main thread, ``run`` does not handle
    signals, and only a failure ends it. ``conversations run`` on the command line does the same in supervised processes.

    Args:
        services: at least one service; their topics must exist (``conversations apply``).
        kafka: the cluster.
        concurrency: used instead of ``settings.concurrency``, the maximum number of handlers of one service that run at the same time.
        settings: settings of the workers.
        state_dir: directory for the local copies of this process. No other process may use it. Without it, the copies are in memory,
            and are restored from the topics at each start.

    Raises:
        DeclarationError: a service has no handler for a message type that it may receive, or an argument has a wrong type. No worker has
            connected to Kafka.
        LogError: Kafka cannot be reached, or it failed and trying again does not help.
    """
    if not services:
        raise TypeError("run() needs at least one service")
    as_services("run", services)
    check_kafka(kafka)
    settings = settings or WorkerSettings()
    if concurrency is not None:
        settings = dataclasses.replace(settings, concurrency=concurrency)
    directory = Path(state_dir) if state_dir is not None else None
    for service in services:
        service.check()  # check all services before the first one connects
    workers = [
        kafka_worker(service, kafka, settings, state_directory=None if directory is None else directory / service.name)
        for service in services
    ]
    feeders = [feeder for service in services for feeder in kafka_feeders(service, kafka, settings)]
    relax()
    with Crew(workers, kafka, feeders) as crew, stopped_by_signals(crew.stop):
        crew.await_end()


@contextlib.contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call ``stop`` at the first SIGTERM or SIGINT. A second signal calls the handler that was set before."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def first(_number: int, _frame: FrameType | None) -> None:
        restore()
        stop()

    for number in before:
        signal.signal(number, first)
    try:
        yield
    finally:
        restore()
