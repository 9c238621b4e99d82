"""A handled message leaves nothing behind that only Python's cyclic collector could free."""

import gc
import weakref
from typing import Any

import pytest

from bench.in_memory import ORDER, ORDERS, PARTITIONS, fill
from conversations import Dialog, Service
from conversations.calls import Call
from conversations.draft import Draft
from conversations.handlers import Handler
from conversations.memory.broker import MemoryBroker
from conversations.memory.clock import SystemClock
from conversations.memory.connection import MemoryConnection
from conversations.scheduler import Run, Steps
from conversations.stores.memory import MemoryStores
from conversations.worker import Worker
from conversations.worker.active import Arrival
from tests.support.waiting import step_until, until

WARM, MESSAGES = 200, 2_000
LEFT = Run, Call, Draft, Dialog, Arrival
"""What a worker makes for each message. ``gc.collect()`` does not count cycles that the end of a generator breaks."""


def answering(kind: str) -> Service[Any]:
    service: Service[Any] = Service("answering", accepts=[ORDERS])

    def answer(body: bytes, dialog: Dialog[Any]) -> None:
        dialog.send(body)

    async def answer_later(body: bytes, dialog: Dialog[Any]) -> None:
        dialog.send(body)

    service.on(ORDER)(answer_later if kind == "async" else answer)
    return service


@pytest.mark.parametrize("kind", ["def", "async"])
def test_no_cycle_is_left_for_each_message(kind: str) -> None:
    """With one, a worker spends a fifth of its time in the collector, and keeps the bodies of many thousand messages meanwhile."""
    broker = MemoryBroker(SystemClock())
    for name in ("asking", "answering"):
        broker.create_service(name, PARTITIONS)
    fill(broker, WARM, 20)
    worker = Worker(answering(kind), lambda: MemoryConnection(broker, "answering"), MemoryStores())
    try:
        until(lambda: worker.step() or worker.counts.handled == WARM, "it works", pause=0)
        gc.collect()
        gc.disable()
        fill(broker, MESSAGES, MESSAGES)  # each message is a run of its own
        step_until(lambda: worker.counts.handled == WARM + MESSAGES and not worker.busy(), worker, seconds=90)
        left = sum(isinstance(it, LEFT) for it in gc.get_objects())
        assert left < MESSAGES / 4
    finally:
        gc.enable()
        worker.close()


def test_a_run_whose_handler_ran_too_long_lets_go_of_its_calls() -> None:
    def steps(call: Call) -> Steps:
        yield call

    handler = Handler(lambda _: None, is_async=False, time_limit=60.0, name="slow")
    made = steps(Call(handler, (None,)))
    run, calls = Run(None, made), weakref.ref(made)
    del made
    assert run.advance(None) is not None
    run.abandoned = True
    assert run.advance(None) is None  # its handler has returned, too late
    assert calls() is None
