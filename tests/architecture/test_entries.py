"""The way of one envelope from poll to commit: how many functions of ours it enters."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import conversations
from bench import fill
from bench.contenders import our_loop
from bench.workload import Job, Workload
from conversations import Dialog, Service, WorkerSettings
from conversations.memory.broker import MemoryBroker
from conversations.memory.clock import ManualClock, SystemClock
from conversations.memory.connection import MemoryConnection
from conversations.ports import Out
from conversations.scheduler import Inline
from conversations.stores.memory import MemoryStores
from conversations.worker import Worker
from tests.support.forms import python_form

HERE = str(Path(conversations.__file__).parent)
BORROWED = str(Path(HERE) / "memory")
"""What stands in for Kafka's client is not ours on the way of an envelope."""
BATCH, STEPS = 500, 3
LIMIT = 35


@contextmanager
def entries() -> Iterator[Counter[str]]:
    """Count the calls of each function of the package."""
    found: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(HERE) and not code.co_filename.startswith(BORROWED):
            found[f"{code.co_filename[len(HERE) + 1 :]} {code.co_qualname}"] += 1

    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)


@python_form
def test_one_envelope_enters_few_functions() -> None:
    """Its dialog is known, its number is the next, its handler says nothing: nearly all envelopes are like that."""
    clock = ManualClock(SystemClock().now())  # stands still, so that no acknowledgement falls due on a slow machine
    broker = MemoryBroker(clock)
    for name in (our_loop.ASKING, our_loop.ANSWERING):
        broker.create_service(name, 1)
    load = Workload(messages=8 * BATCH, dialogs=BATCH, partitions=1)
    for out in fill.messages(Job("ours_memory", "", broker.namespace, "", load)):
        broker.append(Out(*out))
    service = Service(our_loop.ANSWERING, accepts=[our_loop.OPAQUE])

    @service.on(our_loop.OPAQUE_ORDER)
    def take(body: bytes, dialog: Dialog[Any]) -> None: ...

    worker = Worker(
        service,
        lambda: MemoryConnection(broker, our_loop.ANSWERING),
        MemoryStores(),
        settings=WorkerSettings(batch=BATCH),
        scheduler=Inline(),
        clock=clock,
    )
    while worker.counts.handled < 4 * BATCH:
        worker.step()
    before = worker.counts.handled
    gc.disable()  # what it calls is not the envelope's doing
    try:
        with entries() as found:
            while worker.counts.handled < before + STEPS * BATCH:
                worker.step()
    finally:
        gc.enable()
    handled = worker.counts.handled - before
    each = sorted(name for name, times in found.items() if times >= 0.9 * handled)
    assert "worker/intake.py take" in each, "something was counted"
    assert len(each) <= LIMIT, "\n".join(each)
