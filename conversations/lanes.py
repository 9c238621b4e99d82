"""Running the handlers of many lanes: in order inside a lane, side by side across lanes.

A ``Run`` is one lane's work as a generator of calls. A scheduler drives runs: ``Threads`` on a pool that widens only
when handlers wait, with ``async def`` handlers on one event loop; ``Inline`` at once, in the caller's thread.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Coroutine, Generator
from typing import Any, Protocol

from conversations.handlers import Handler
from conversations.logs import handling


class Call:
    """One run of one handler; the last argument is its dialog."""

    __slots__ = ("arguments", "handler")

    def __init__(self, handler: Handler, arguments: tuple[Any, ...]) -> None:
        self.handler = handler
        self.arguments = arguments


Steps = Generator[Call, BaseException | None, None]


class Run:
    """The work of one lane, until it has none."""

    __slots__ = ("_steps", "abandoned", "call", "done", "lane", "mark", "started", "task")

    def __init__(self, lane: Any, steps: Steps) -> None:
        self.lane = lane
        self._steps = steps
        self.call: Call | None = None
        """The handler running now."""
        self.started = 0.0
        """When it began, on the monotonic clock."""
        self.abandoned = False
        """Its handler ran over its time limit: whatever it still does is refused."""
        self.done = False
        self.mark: Mark | None = None
        self.task: asyncio.Task[None] | None = None

    def advance(self, failure: BaseException | None) -> Call | None:
        """Report how the last call went and get the next; None when the lane is out of work."""
        if self.abandoned:
            return None
        try:
            call = next(self._steps) if self.call is None else self._steps.send(failure)
        except StopIteration:
            self.call = None
            return None
        self.started = time.monotonic()
        self.call = call
        return call

    def overdue(self, now: float) -> bool:
        """Say whether the running handler is past its time limit."""
        call = self.call
        return call is not None and now - self.started > call.handler.time_limit


class Mark:
    """Counts the runs started since it was made, so that a step can wait for its own."""

    __slots__ = ("_lock", "_open", "_quiet")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = 0
        self._quiet = threading.Event()
        self._quiet.set()

    def begin(self) -> None:
        """One more run."""
        with self._lock:
            self._open += 1
            if self._quiet.is_set():
                self._quiet.clear()

    def end(self) -> None:
        """One run less."""
        with self._lock:
            self._open -= 1
            if not self._open:
                self._quiet.set()

    def wait(self, timeout: float) -> bool:
        """Wait until no run is open; False on time-out."""
        return self._quiet.wait(timeout)


class Scheduler(Protocol):
    """Drives runs."""

    def start(self, run: Run, mark: Mark) -> None:
        """Begin working on a run soon."""

    def wait(self, mark: Mark, patience: float) -> None:
        """Wait for the runs of ``mark``: ``patience`` seconds, and longer only while they are being finished."""

    def abandon(self, run: Run) -> None:
        """Give up on a run whose handler is over its time limit."""

    @property
    def exhausted(self) -> bool:
        """True when so many abandoned handlers still run that the process should be replaced."""

    def close(self) -> None:
        """Stop taking runs."""


def invoke(call: Call) -> BaseException | None:
    """Run a ``def`` handler and return what it raised."""
    handling(call.arguments[-1])
    try:
        call.handler.function(*call.arguments)
    except BaseException as error:  # noqa: BLE001 - a handler may raise anything; it is judged by the owner
        return error
    finally:
        handling(None)
    return None


async def invoke_async(call: Call) -> BaseException | None:
    """Run an ``async def`` handler and return what it raised."""
    handling(call.arguments[-1])
    try:
        await call.handler.function(*call.arguments)
    except asyncio.CancelledError as error:
        return error
    except BaseException as error:  # noqa: BLE001 - a handler may raise anything; it is judged by the owner
        return error
    finally:
        handling(None)
    return None


class Threads:
    """A pool of threads for ``def`` handlers and an event loop for ``async def`` ones.

    Args:
        concurrency: handlers that may run at the same time; threads are only started while others wait.
        name: prefix of the threads' names.
        loop: where ``async def`` handlers run, in a thread of its owner's; by default one is made when needed.
    """

    LONGEST = 1.0
    """Seconds a step may outlast its patience while its lanes are finished one after the other."""
    TICK = 0.002
    """Seconds after which a step looks whether its handlers wait and more threads would help."""

    def __init__(self, concurrency: int, name: str, *, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._limit = concurrency
        self._name = name
        self._ready: deque[Run] = deque()
        self._work = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._threads = 0
        self._busy = 0
        self._orphans = 0
        self._closed = False
        self._loop = loop
        self._own_loop = loop is None
        self._slots = asyncio.Semaphore(concurrency)

    @property
    def exhausted(self) -> bool:
        """True when half the pool runs handlers that were given up on."""
        return self._orphans * 2 >= max(self._limit, 2)

    def start(self, run: Run, mark: Mark) -> None:
        """Queue a run; one idle thread is enough until the step finds that handlers wait."""
        run.mark = mark
        mark.begin()
        self._ready.append(run)
        if not self._busy:
            self._widen(1)

    def wait(self, mark: Mark, patience: float) -> None:
        """Wait for the runs of ``mark``, widening the pool while they wait for a thread."""
        deadline = time.monotonic() + patience
        waiting = len(self._ready)
        while not mark.wait(self.TICK):
            left, late = len(self._ready), time.monotonic() - deadline
            # Past its patience a step goes on only while lanes are finished: that is much work, not a slow handler,
            # and turning it into rows would be more work.
            if late >= 0 and (left >= waiting or late >= self.LONGEST):
                break
            if left and waiting - left < 4 * self._busy:
                self._widen(max(1, self._busy))
            waiting = left
        if self._ready and not mark.wait(0):
            self._widen(max(1, self._busy))

    def _widen(self, more: int) -> None:
        with self._lock:
            more = min(more, self._limit + self._orphans - self._busy, len(self._ready))
            for _ in range(more):
                self._busy += 1
                if self._busy > self._threads:
                    self._threads += 1
                    threading.Thread(target=self._work_loop, name=f"{self._name}-{self._threads}", daemon=True).start()
                self._work.release()

    def _work_loop(self) -> None:
        while True:
            self._work.acquire()
            if self._closed:
                return
            while True:
                try:
                    run = self._ready.popleft()
                except IndexError:
                    with self._lock:
                        self._busy -= 1
                        # A run queued between the two lines above would find nobody.
                        if not self._ready or self._busy:
                            break
                        self._busy += 1
                    continue
                self._drive(run, run.advance(None))

    def _drive(self, run: Run, call: Call | None) -> None:
        while call is not None:
            if call.handler.is_async:
                self._event_loop().call_soon_threadsafe(self._spawn, run, call)
                return
            failure = invoke(call)
            if run.abandoned:
                with self._lock:
                    self._orphans -= 1
                return
            call = run.advance(failure)
        self._finish(run)

    def _finish(self, run: Run) -> None:
        if not run.abandoned and not run.done:
            run.done = True
            if run.mark is not None:
                run.mark.end()

    # -- async def ------------------------------------------------------------------------------------

    def _event_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(
                    target=_run_until_stopped, args=(self._loop,), name=f"{self._name}-loop", daemon=True
                ).start()
            return self._loop

    def _spawn(self, run: Run, call: Call) -> None:
        run.task = asyncio.get_running_loop().create_task(self._drive_async(run, call))

    async def _drive_async(self, run: Run, call: Call | None) -> None:
        while call is not None:
            if not call.handler.is_async:
                self._requeue(run, call)
                return
            run.started = math.inf  # waiting for a place is not running
            async with self._slots:
                run.started = time.monotonic()
                failure = await invoke_async(call)
            if run.abandoned:
                return
            call = run.advance(failure)
        self._finish(run)

    def _requeue(self, run: Run, call: Call) -> None:
        run.task = None  # from here on a thread holds the run, which cannot be cancelled
        threading.Thread(target=self._drive, args=(run, call), name=f"{self._name}-mixed", daemon=True).start()

    # -- the end ----------------------------------------------------------------------------------------

    def abandon(self, run: Run) -> None:
        """Refuse whatever the run's handler still does; a task is cancelled, a thread cannot be."""
        run.abandoned = True
        if run.mark is not None and not run.done:
            run.done = True
            run.mark.end()
        task, loop = run.task, self._loop
        if task is not None and loop is not None:
            loop.call_soon_threadsafe(task.cancel)
        else:
            with self._lock:
                self._orphans += 1

    def close(self) -> None:
        """Let idle threads end; running handlers are left alone."""
        self._closed = True
        for _ in range(self._threads):
            self._work.release()
        loop = self._loop
        if loop is not None and self._own_loop:
            loop.call_soon_threadsafe(loop.stop)


def _run_until_stopped(loop: asyncio.AbstractEventLoop) -> None:
    """Run an event loop; once it is stopped, cancel what is left and release its sockets."""
    loop.run_forever()
    loop.run_until_complete(_cancelled(asyncio.all_tasks(loop)))
    loop.close()


async def _cancelled(tasks: set[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class Inline:
    """Runs every handler at once in the caller's thread; ``async def`` ones on a loop whose time never waits."""

    exhausted = False

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, run: Run, mark: Mark) -> None:
        """Work on the run until it has nothing to do."""
        run.mark = mark
        call = run.advance(None)
        while call is not None:
            failure = self._await(invoke_async(call)) if call.handler.is_async else invoke(call)
            call = run.advance(failure)
        run.done = True

    def _await(self, coroutine: Coroutine[Any, Any, BaseException | None]) -> BaseException | None:
        if self._loop is None:
            self._loop = VirtualLoop()
        return self._loop.run_until_complete(coroutine)

    def wait(self, mark: Mark, patience: float) -> None:
        """Nothing is left to wait for."""

    def abandon(self, run: Run) -> None:
        """Never needed: nothing runs while the owner looks."""

    def close(self) -> None:
        """Close the event loop."""
        if self._loop is not None:
            self._loop.close()
            self._loop = None


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        selector = self._selector  # type: ignore[attr-defined]  # asyncio has no public way to its selector
        select = selector.select

        def jump(timeout: float | None = None) -> Any:
            if timeout:
                self._now += timeout
            return select(0)

        selector.select = jump

    def time(self) -> float:
        """Seconds on the loop's own clock."""
        return self._now
