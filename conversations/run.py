"""Running services in this process until somebody stops it."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from conversations.config import Kafka, WorkerSettings
from conversations.crew import Crew, kafka_worker
from conversations.interpreter import relax
from conversations.service import Service


def run(
    *services: Service[Any],
    kafka: Kafka,
    concurrency: int | None = None,
    settings: WorkerSettings | None = None,
    state_dir: Path | str | None = None,
) -> None:
    """Run services in this process, one worker thread each, until SIGTERM, SIGINT or a failure.

    A first signal lets running handlers finish within ``settings.revocation``, commits, and leaves the groups; a second
    one does what it did before. Outside the main thread no signal is heeded: only a failure ends the run.
    ``conversations run`` on the command line does the same in supervised processes.

    Args:
        services: at least one; topics must exist (``conversations apply``).
        kafka: the cluster.
        concurrency: instead of ``settings.concurrency``: handlers of one service that may run at the same time.
        settings: how the workers work.
        state_dir: where local copies of state live, of this process alone; without it they are in memory, and rebuilt
            from the topics at each start.

    Raises:
        DeclarationError: a service has no handler for something that it may receive; nothing was connected.
        LogError: Kafka cannot be reached, or failed for good.
        StateUpgradeError: stored state is of a version this code does not understand.
    """
    if not services:
        raise TypeError("run() needs at least one service")
    settings = settings or WorkerSettings()
    if concurrency is not None:
        settings = dataclasses.replace(settings, concurrency=concurrency)
    directory = Path(state_dir) if state_dir is not None else None
    for service in services:
        service.check()  # all of them, before the first connects to anything
    workers = [
        kafka_worker(service, kafka, settings, state_directory=None if directory is None else directory / service.name)
        for service in services
    ]
    relax()
    with Crew(workers, kafka) as crew, stopped_by_signals(crew.stop):
        crew.await_end()


@contextlib.contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call ``stop`` at the first SIGTERM or SIGINT; a second signal meets the earlier handler."""
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
