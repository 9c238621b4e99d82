"""Runs the handlers of many lanes: one after the other within a lane, several lanes at the same time.

A ``Run`` is the work of one lane as a generator of handler calls. A scheduler drives the runs. ``Threads`` runs ``def`` handlers
in a pool of threads, and ``async def`` handlers on one event loop. The pool gets more threads only when handlers wait. ``Inline``
runs every handler immediately, in the caller's thread.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Coroutine, Generator
from contextlib import suppress
from typing import Any, Protocol

from conversations.calls import Call, invoke, invoke_async
from conversations.loop_watch import LoopWatch
from conversations.virtual_loop import VirtualLoop

Steps = Generator[Call | None, BaseException | None, None]
"""The calls of a run. A last None means that there are no more: compiled code yields it much faster than it ends a generator."""


class Run:
    """The work of one lane, as a series of handler calls, until the lane has no more work."""

    __slots__ = ("_steps", "abandoned", "call", "done", "lane", "mark", "started", "task", "took")

    def __init__(self, lane: Any, steps: Steps) -> None:
        self.lane = lane
        self._steps: Steps | None = steps
        """The calls; None while one is taken, and when there are no more. They refer to this run, so a run that kept them would be a cycle of references."""
        self.call: Call | None = None
        """The handler running now."""
        self.started = 0.0
        """Time at which the handler began, on the monotonic clock; infinity while the handler waits for a thread or the event loop."""
        self.took = 0.0
        """Seconds that the last handler ran, from its beginning to its return."""
        self.abandoned = False
        """True after a handler ran longer than its time limit. Later requests of this handler are refused."""
        self.done = False
        self.mark: Mark | None = None
        self.task: asyncio.Task[None] | None = None

    def advance(self, failure: BaseException | None) -> Call | None:
        """Report the end of the last call, and return the next call. Return None if the lane has no more work, or the run is abandoned.

        Args:
            failure: the exception of the last call; None if the call succeeded, or if this is the first call.
        """
        steps, self._steps = self._steps, None
        if self.abandoned or steps is None:
            return None
        has_returned, self.call = self.call is not None, None  # between two handlers no time limit applies
        if has_returned:
            self.took = time.monotonic() - self.started
        try:
            call = steps.send(failure)
        except StopIteration:
            call = None
        if self.mark is not None and (has_returned or call is None):
            self.mark.returned += 1
        if call is None:
            return None
        self._steps = steps
        # An ``async def`` handler begins only when the event loop reaches it. Until then its time limit does not count.
        self.started = math.inf if call.handler.is_async else time.monotonic()
        self.call = call
        return call

    def begin(self) -> None:
        """Note that the handler begins now."""
        self.started = time.monotonic()

    def overdue(self, now: float) -> bool:
        """Return True if the running handler is past its time limit."""
        call = self.call
        return call is not None and now - self.started > call.handler.time_limit


class Mark:
    """Counts the open runs of one step, so that the step can wait for them."""

    __slots__ = ("_lock", "_open", "_quiet", "returned")

    def __init__(self) -> None:
        self.returned = 0
        """Number of handlers that returned, and of runs without a handler that ended. It is approximate, because threads count without a lock."""
        self._lock = threading.Lock()
        self._open = 0
        self._quiet = threading.Lock()
        """Held while a run is open. A lock is made sixty times as quickly as an event, and each step makes a mark."""

    def begin(self, runs: int) -> None:
        """Count runs that start: at least one."""
        with self._lock:
            self._open += runs
            if self._open == runs:
                self._quiet.acquire()

    def end(self) -> None:
        """Count a run that ended."""
        with self._lock:
            self._open -= 1
            if not self._open:
                self._quiet.release()

    def wait(self, timeout: float) -> bool:
        """Wait until no run is open, at most ``timeout`` seconds. Return False if a run is still open then."""
        is_quiet = self._quiet.acquire(timeout=timeout)
        if is_quiet:
            self._quiet.release()
        return is_quiet


class Scheduler(Protocol):
    """Drives runs."""

    def start(self, runs: list[Run], mark: Mark) -> None:
        """Queue runs, and count them in ``mark``."""

    def wait(self, mark: Mark, patience: float) -> None:
        """Wait at most ``patience`` seconds for the runs of ``mark``.

        Wait longer only while handlers of these runs keep returning, or runs without a handler end.
        """

    def abandon(self, run: Run) -> None:
        """Give up on a run whose handler is past its time limit."""

    def look(self) -> None:
        """Report a handler that blocks the event loop. The worker calls this method in every step."""

    @property
    def exhausted(self) -> bool:
        """True if so many abandoned handlers still run that the process should be replaced."""

    def close(self) -> None:
        """Stop working on runs."""


class Threads:
    """A pool of threads for ``def`` handlers, and an event loop for ``async def`` handlers.

    Args:
        concurrency: maximum number of handlers that run at the same time. A thread is started only if runs wait for a thread.
        name: prefix of the threads' names.
        loop: event loop for ``async def`` handlers. The caller must run this loop. By default, the pool makes and runs a loop of its
            own when one is needed.
    """

    LONGEST = 1.0
    """Maximum number of seconds that a step continues to wait after its patience is over. It does so while its work goes on."""
    WAVE = 0.02
    """Seconds. After its patience is over, a step stops waiting as soon as no handler has returned, and no other run has ended, for this time."""
    TICK = 0.002
    """Seconds between two checks of a step that waits. If runs wait for a thread at a check, the step may add threads."""

    def __init__(self, concurrency: int, name: str, *, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._limit = concurrency
        self._name = name
        self._ready: deque[Run] = deque()
        """Runs that have not begun."""
        self._called: deque[tuple[Run, Call]] = deque()
        """Runs whose next handler waits for a free thread."""
        self._work = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._threads = 0
        self._busy = 0
        self._orphans: set[Run] = set()
        """Abandoned runs whose handler still occupies a thread."""
        self._on_loop: set[Run] = set()
        """Runs whose handler was given to the event loop, including abandoned runs."""
        self._closed = False
        self._loop = loop
        self._watch = None if loop is None else LoopWatch(loop)
        self._own_loop = loop is None
        self._slots = asyncio.Semaphore(concurrency)

    @property
    def exhausted(self) -> bool:
        """True if half the pool, or the event loop, is occupied by handlers that are past their time limit and cannot be stopped."""
        if not self._orphans and not self._on_loop:
            return False
        now = time.monotonic()
        with self._lock:
            hopeless = [run for run in (*self._orphans, *self._on_loop) if run.abandoned and run.overdue(now)]
        if len(hopeless) * 2 >= max(self._limit, 2):
            return True
        if not hopeless or self._watch is None or not self._watch.blocked:
            return False
        culprit = self._culprit(self._watch)
        return culprit is None or culprit in hopeless

    def start(self, runs: list[Run], mark: Mark) -> None:
        """Queue runs, and make sure that at least one thread works. ``wait`` adds more threads if runs wait for a thread."""
        if not runs:
            return
        for run in runs:
            run.mark = mark
        mark.begin(len(runs))
        self._ready.extend(runs)
        if not self._busy:
            self._widen(1)

    def wait(self, mark: Mark, patience: float) -> None:
        """Wait for the runs of ``mark``, and add threads to the pool while runs wait for one."""
        deadline = time.monotonic() + patience
        waiting, returned, look = len(self._ready), mark.returned, deadline
        seen = returned
        while not mark.wait(self.TICK):
            left, now = len(self._ready), time.monotonic()
            # After the patience is over, a step waits only while handlers return, or runs without a handler end. As long as this goes on,
            # no handler is slow. The step only has much work, and to write waiting rows would be more work. Handlers that use one resource
            # return in waves.
            if now >= look:
                if mark.returned == returned or now >= deadline + self.LONGEST:
                    break
                returned, look = mark.returned, now + self.WAVE
            # A run may have many quick handlers, one after the other. Then more threads would only contend for the lock.
            if left and waiting - left < 4 * self._busy and mark.returned - seen < 4 * self._busy:
                self._widen(max(1, self._busy))
            waiting, seen = left, mark.returned
        if self._ready:  # runs of this step, or of an earlier step
            self._widen(max(1, self._busy))
            if self._busy >= self._limit:
                self._bring_to_handlers()

    def _bring_to_handlers(self) -> None:
        """Bring each waiting run to its first handler, in the step's own thread, because all threads of the pool are busy.

        So work without a handler (acknowledgements, ends, commands) does not wait for a thread. Only ``def`` handlers wait for a thread.
        """
        with suppress(IndexError):
            while True:
                run = self._ready.popleft()
                call = run.advance(None)
                if call is not None and not call.handler.is_async:
                    run.started = math.inf  # the time limit does not count while the handler waits for a thread
                    self._called.append((run, call))
                else:
                    self._drive(run, call)
        self._widen(1)  # a thread may have become free meanwhile

    def _widen(self, more: int) -> None:
        with self._lock:
            waiting = len(self._ready) + len(self._called)
            more = min(more, self._limit + len(self._orphans) - self._busy, waiting)
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
                    self._take_one()
                except IndexError:
                    if self._rests():
                        break

    def _rests(self) -> bool:
        """Return True if the calling thread found no work, and is to wait for some."""
        with self._lock:
            self._busy -= 1
            # A run may have been queued after ``_take_one`` found nothing, while this thread still counted as busy.
            if not (self._ready or self._called) or self._busy:
                return True
            self._busy += 1
            return False

    def _take_one(self) -> None:
        if self._called:
            run, call = self._called.popleft()
            run.started = time.monotonic()
            self._drive(run, call)
        else:
            run = self._ready.popleft()
            self._drive(run, run.advance(None))

    def _drive(self, run: Run, call: Call | None) -> None:
        while call is not None and not run.abandoned:
            if call.handler.is_async:
                with self._lock:
                    self._on_loop.add(run)
                self._event_loop().call_soon_threadsafe(self._spawn, run, call)
                return
            call = run.advance(invoke(call))
        self._finish(run)
        if run.abandoned:  # looked at after the end is noted, because ``abandon`` does it the other way round
            with self._lock:
                self._orphans.discard(run)

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
                self._watch = LoopWatch(self._loop)
                threading.Thread(
                    target=_run_until_stopped, args=(self._loop,), name=f"{self._name}-loop", daemon=True
                ).start()
            return self._loop

    def _spawn(self, run: Run, call: Call) -> None:
        if self._watch is not None:
            self._watch.here()
        run.task = asyncio.get_running_loop().create_task(self._drive_async(run, call))

    async def _drive_async(self, run: Run, call: Call) -> None:
        following: Call | None = call
        try:
            while following is not None and following.handler.is_async and not run.abandoned:
                async with self._slots:
                    run.started = time.monotonic()  # the time limit counts from here, not from the wait for a slot
                    failure = await invoke_async(following)
                following = run.advance(failure)
        finally:
            with self._lock:
                self._on_loop.discard(run)
        if following is not None and not run.abandoned:
            self._requeue(run, following)
        else:
            self._finish(run)

    def look(self) -> None:
        """Log an error if a handler blocks the event loop. All other handlers on the loop wait then."""
        watch = self._watch
        if watch is not None and (self._on_loop or watch.blocked):
            watch.look(lambda: self._culprit(watch))

    def _culprit(self, watch: LoopWatch) -> Run | None:
        task, dialog = watch.running()
        with self._lock:
            for run in self._on_loop:
                call = run.call  # read only once, because the run's own thread may clear it meanwhile
                if run.task is task or (call is not None and call.arguments[-1] is dialog):
                    return run
        return None

    def _requeue(self, run: Run, call: Call) -> None:
        run.task = None  # from here on the run is in a thread, and a thread cannot be cancelled
        threading.Thread(target=self._drive, args=(run, call), name=f"{self._name}-mixed", daemon=True).start()

    # -- the end ----------------------------------------------------------------------------------------

    def abandon(self, run: Run) -> None:
        """Refuse later requests of the run's handler.

        Cancel the handler if it is on the event loop. A handler in a thread cannot be stopped.
        """
        with self._lock:
            run.abandoned = True
            on_loop = run in self._on_loop
            if not on_loop and not run.done:
                self._orphans.add(run)
        if (call := run.call) is not None:  # read only once, because the run's own thread may clear it meanwhile
            call.over()
        if run.mark is not None and not run.done:
            run.done = True
            run.mark.end()
        task, loop = run.task, self._loop
        if on_loop and task is not None and loop is not None:
            with suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(task.cancel)

    def close(self) -> None:
        """Let idle threads end, and stop the pool's own event loop. A second call does nothing.

        The handlers on the pool's own loop are cancelled. Handlers in threads, or on a loop of the caller, continue.
        """
        if self._closed:
            return
        self._closed = True
        for _ in range(self._threads):
            self._work.release()
        loop = self._loop
        if loop is not None and self._own_loop:
            loop.call_soon_threadsafe(loop.stop)


def _run_until_stopped(loop: asyncio.AbstractEventLoop) -> None:
    """Run an event loop until it is stopped; then cancel its tasks and close it."""
    loop.run_forever()
    loop.run_until_complete(_cancelled(asyncio.all_tasks(loop)))
    loop.close()


async def _cancelled(tasks: set[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class Inline:
    """Runs every handler immediately, in the caller's thread.

    ``async def`` handlers run on a ``VirtualLoop``, so their waits take no time.
    """

    exhausted = False

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, runs: list[Run], mark: Mark) -> None:
        """Work on each run until its lane has no more work."""
        for run in runs:
            run.mark = mark
            call = run.advance(None)
            while call is not None:
                if call.handler.is_async:
                    run.begin()
                failure = self._await(invoke_async(call)) if call.handler.is_async else invoke(call)
                call = run.advance(failure)
            run.done = True

    def _await(self, coroutine: Coroutine[Any, Any, BaseException | None]) -> BaseException | None:
        if self._loop is None:
            self._loop = VirtualLoop()
        return self._loop.run_until_complete(coroutine)

    def wait(self, mark: Mark, patience: float) -> None:
        """Do nothing: ``start`` has finished every run."""

    def look(self) -> None:
        """Do nothing, because handlers run only in ``start``."""

    def abandon(self, run: Run) -> None:
        """Do nothing: ``start`` has finished every run."""

    def close(self) -> None:
        """Close the event loop."""
        if self._loop is not None:
            self._loop.close()
            self._loop = None
