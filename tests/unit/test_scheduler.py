"""Laws of schedulers: order inside a run, runs side by side, and time limits that bind only running handlers."""

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any

import pytest

from conversations.calls import Call
from conversations.dialog import Dialog
from conversations.handlers import Handler
from conversations.scheduler import Inline, Mark, Run, Scheduler, Steps, Threads
from tests.support import waiting
from tests.support.forms import python_form

PATIENCE = 10.0
until = partial(waiting.until, seconds=PATIENCE, pause=0.001)


def call(function: Callable[..., Any], *, is_async: bool = False, time_limit: float = 60.0) -> Call:
    return Call(Handler(function, is_async, time_limit, getattr(function, "__name__", "handler")), (None,))


class Lane:
    """A run of several calls, and what became of each."""

    def __init__(self, *calls: Call) -> None:
        self.calls = calls
        self.outcomes: list[BaseException | None] = []
        self.run = Run(self, self._steps())

    def _steps(self) -> Steps:
        for one in self.calls:
            self.outcomes.append((yield one))


@pytest.fixture(params=["threads", "inline"])
def scheduler(request: pytest.FixtureRequest) -> Any:
    made: Scheduler = Threads(4, "test") if request.param == "threads" else Inline()
    yield made
    made.close()


def finish(scheduler: Scheduler, *lanes: Lane) -> None:
    mark = Mark()
    for lane in lanes:
        scheduler.start([lane.run], mark)
    scheduler.wait(mark, PATIENCE)
    assert all(lane.run.done for lane in lanes)


def test_the_calls_of_a_run_follow_each_other(scheduler: Scheduler) -> None:
    """``def`` and ``async def`` mixed: each begins when the one before has finished."""
    heard: list[int] = []

    async def say(number: int) -> None:
        await asyncio.sleep(0)
        heard.append(number)

    calls = [
        call(lambda _: heard.append(0)),
        call(lambda _: say(1), is_async=True),
        call(lambda _: heard.append(2)),
        call(lambda _: say(3), is_async=True),
    ]
    lane = Lane(*calls)
    finish(scheduler, lane)
    assert heard == [0, 1, 2, 3]
    assert lane.outcomes == [None] * 4


def test_what_a_handler_raises_is_reported_and_raised_nowhere(scheduler: Scheduler) -> None:
    """Even what is not an Exception: the owner judges."""

    def fail(_: object) -> None:
        raise SystemExit(3)

    async def fail_async(_: object) -> None:
        raise KeyError("x")

    lane = Lane(call(fail), call(fail_async, is_async=True), call(lambda _: None))
    finish(scheduler, lane)
    assert [type(outcome) for outcome in lane.outcomes] == [SystemExit, KeyError, type(None)]


def test_many_runs_all_finish(scheduler: Scheduler) -> None:
    """More than there are threads."""
    done: list[int] = []
    lanes = [Lane(*(call(lambda _, n=n: done.append(n)) for _ in range(3))) for n in range(200)]
    finish(scheduler, *lanes)
    assert sorted(done) == sorted(list(range(200)) * 3)


def test_handlers_that_wait_run_side_by_side() -> None:
    """As many at a time as allowed: each waits for all the others."""
    threads = Threads(4, "test")
    barrier = threading.Barrier(4)
    lanes = [Lane(call(lambda _: barrier.wait(PATIENCE))) for _ in range(4)]
    finish(threads, *lanes)
    assert [lane.outcomes for lane in lanes] == [[None]] * 4
    threads.close()


def test_async_handlers_that_wait_run_side_by_side() -> None:
    """On one event loop."""
    threads = Threads(4, "test")
    arrived: list[asyncio.Event] = []

    async def meet(_: object) -> None:
        mine = asyncio.Event()
        arrived.append(mine)
        if len(arrived) == 4:
            for event in arrived:
                event.set()
        await mine.wait()

    finish(threads, *(Lane(call(meet, is_async=True)) for _ in range(4)))
    threads.close()


def test_runs_without_a_handler_count_as_work_that_goes_on(scheduler: Scheduler) -> None:
    """A step waits while its work goes on. Commands have no handler, and thousands of them take longer than the patience."""
    mark, commands, messages = (
        Mark(),
        [Lane() for _ in range(5)],
        [Lane(call(lambda _: None), call(lambda _: None)) for _ in range(3)],
    )
    for lane in (*commands, *messages):
        scheduler.start([lane.run], mark)
    scheduler.wait(mark, PATIENCE)
    assert mark.returned == len(commands) + 2 * len(messages)


def test_a_step_does_not_wait_longer_than_its_patience() -> None:
    """A slow handler holds up nobody; its run goes on after the step."""
    threads = Threads(2, "test")
    gate = threading.Event()
    slow, quick = Lane(call(lambda _: gate.wait(PATIENCE))), Lane(call(lambda _: None))
    mark = Mark()
    threads.start([slow.run], mark)
    threads.start([quick.run], mark)
    began = monotonic()
    threads.wait(mark, 0.05)
    assert monotonic() - began < PATIENCE / 2
    until(lambda: quick.run.done)
    assert not slow.run.done
    gate.set()
    until(lambda: slow.run.done)
    threads.close()


def test_a_run_is_overdue_when_its_handler_is() -> None:
    """The limit is the handler's own, and counts from when it began."""
    run = Lane(call(lambda _: None, time_limit=5.0)).run
    assert not run.overdue(monotonic() + 100)
    run.advance(None)
    assert not run.overdue(run.started + 5.0)
    assert run.overdue(run.started + 5.1)


def test_waiting_for_a_free_place_is_not_running() -> None:
    """A handler that has not begun because others hold all places is not over its time limit."""
    threads = Threads(1, "test")
    gate = threading.Event()
    inside = threading.Event()

    async def hold(_: object) -> None:
        inside.set()
        await asyncio.to_thread(gate.wait, PATIENCE)

    first, second = (Lane(call(hold, is_async=True, time_limit=1.0)) for _ in range(2))
    mark = Mark()
    threads.start([first.run], mark)
    until(inside.is_set)
    threads.start([second.run], mark)
    until(lambda: second.run.task is not None and second.run.call is not None)
    until(lambda: not second.run.overdue(monotonic() + 100))
    assert first.run.overdue(monotonic() + 100)
    gate.set()
    until(lambda: first.run.done and second.run.done)
    threads.close()


def test_what_an_abandoned_handler_still_does_is_refused() -> None:
    """Its outcome is not reported, and the next call of its run is never made."""
    threads = Threads(4, "test")
    gate, inside = threading.Event(), threading.Event()
    after: list[int] = []

    def slow(_: object) -> None:
        inside.set()
        gate.wait(PATIENCE)

    lane = Lane(call(slow), call(lambda _: after.append(1)))
    mark = Mark()
    threads.start([lane.run], mark)
    until(inside.is_set)
    threads.abandon(lane.run)
    assert mark.wait(0)
    gate.set()
    until(lambda: not threads._orphans)
    assert lane.outcomes == []
    assert after == []
    threads.close()


def test_half_a_pool_of_abandoned_threads_is_exhausted() -> None:
    """Threads cannot be killed: then the process should be replaced."""
    threads = Threads(4, "test")
    gate = threading.Event()
    inside = threading.Semaphore(0)

    def slow(_: object) -> None:
        inside.release()
        gate.wait(PATIENCE)

    lanes = [Lane(call(slow, time_limit=0.0)) for _ in range(2)]
    mark = Mark()
    for lane in lanes:
        threads.start([lane.run], mark)
    threads.wait(mark, 0.05)
    for _ in lanes:
        assert inside.acquire(timeout=PATIENCE)
    threads.abandon(lanes[0].run)
    assert not threads.exhausted
    threads.abandon(lanes[1].run)
    assert threads.exhausted
    gate.set()
    until(lambda: not threads.exhausted)
    threads.close()


@python_form  # a compiled call takes no draft of a test
def test_a_handler_that_returns_while_it_is_abandoned_occupies_no_thread() -> None:
    """Else the process would be replaced for nothing."""
    threads, gate = Threads(1, "test"), threading.Event()

    class Closing:
        """A draft whose closing takes until the handler has returned, and its thread is free."""

        def close(self) -> None:
            gate.set()
            until(lambda: not threads._busy)

    dialog: Any = Dialog.__new__(Dialog)
    dialog._draft = Closing()
    lane = Lane(Call(Handler(lambda _: bool(gate.wait(PATIENCE)) and None, False, 0.001, "wait"), (dialog,)))
    threads.start([lane.run], Mark())
    until(lambda: lane.run.overdue(monotonic()))
    threads.abandon(lane.run)
    assert not threads.exhausted
    threads.close()


def test_an_abandoned_task_is_cancelled_and_holds_no_thread() -> None:
    """An ``async def`` handler can be stopped."""
    threads = Threads(4, "test")
    cancelled, inside = threading.Event(), threading.Event()

    async def slow(_: object) -> None:
        inside.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    lane = Lane(call(slow, is_async=True))
    threads.start([lane.run], Mark())
    until(inside.is_set)
    threads.abandon(lane.run)
    assert cancelled.wait(PATIENCE)
    assert not threads._orphans
    threads.close()


def test_a_thread_that_is_abandoned_after_an_async_call_is_counted() -> None:
    """The run's earlier task is finished: cancelling it would free no thread."""
    threads = Threads(4, "test")
    gate, inside = threading.Event(), threading.Event()

    async def quick(_: object) -> None:
        await asyncio.sleep(0)

    def slow(_: object) -> None:
        inside.set()
        gate.wait(PATIENCE)

    lane = Lane(call(quick, is_async=True), call(slow))
    threads.start([lane.run], Mark())
    until(inside.is_set)
    threads.abandon(lane.run)
    assert len(threads._orphans) == 1
    gate.set()
    until(lambda: not threads._orphans)
    threads.close()


def test_virtual_time_does_not_wait() -> None:
    """``Inline`` lets an hour of asyncio.sleep pass at once, in order."""
    inline = Inline()
    heard: list[str] = []

    async def nap(_: object) -> None:
        async def later(name: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            heard.append(name)

        await asyncio.gather(later("second", 3600), later("first", 60))

    began = monotonic()
    finish(inline, Lane(call(nap, is_async=True)))
    assert heard == ["first", "second"]
    assert monotonic() - began < PATIENCE
    inline.close()


def test_closing_twice_is_harmless() -> None:
    """Also when the event loop is gone by then."""
    threads = Threads(2, "test")

    async def nothing(_: object) -> None: ...

    finish(threads, Lane(call(nothing, is_async=True)))
    threads.close()
    loop = threads._loop
    until(lambda: loop is None or loop.is_closed())
    threads.close()
