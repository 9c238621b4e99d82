"""Runs a librdkafka call with a time limit, because some calls ignore their own timeout argument."""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread


class Stuck(Exception):
    """The call did not return in time and is still running. The objects that the call uses must not be used again."""


class BoundedCalls:
    """Runs calls one after another on its own thread. The thread has no measurable cost, unless another thread holds the GIL."""

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._ends: SimpleQueue[BaseException | None] = SimpleQueue()
        Thread(target=_serve, args=(self._calls, self._ends), name=name, daemon=True).start()

    def run(self, call: Callable[[], object], timeout: float) -> None:
        """Run ``call`` and wait for its end, at most ``timeout`` seconds. It raises the same errors as ``end``."""
        self.begin(call)
        self.end(timeout)

    def begin(self, call: Callable[[], object]) -> None:
        """Begin a call. ``end`` must follow before the next one."""
        self._calls.put(call)

    def end(self, timeout: float) -> None:
        """Wait for the end of the call that has begun, at most ``timeout`` seconds from now.

        Raises:
            Stuck: the call did not end in time. This object cannot be used any more.
            BaseException: the exception that the call raised.
        """
        try:
            end = self._ends.get(timeout=timeout)
        except Empty:
            raise Stuck(f"no answer in {timeout} s") from None
        if end is not None:
            try:
                raise end
            finally:
                del end  # its traceback refers to this frame: a cycle would keep a failed client alive

    def close(self) -> None:
        """Let the thread end as soon as its present call has returned."""
        self._calls.put(None)


def _serve(calls: SimpleQueue[Callable[[], object] | None], ends: SimpleQueue[BaseException | None]) -> None:
    while (call := calls.get()) is not None:
        end: BaseException | None = None
        try:
            call()
        except BaseException as failure:  # noqa: BLE001 - every exception goes to the caller
            end = failure
        ends.put(end)
        del call, end  # so that an idle thread does not keep a producer alive
