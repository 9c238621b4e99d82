"""Calls with a time limit of our own, for a librdkafka call that may ignore the one it is given."""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread


class Stuck(Exception):
    """The call did not return in time and is still running; nothing it uses may be touched again."""


class BoundedCalls:
    """Runs calls one after another on a thread of its own; costs no measurable time while nobody hogs the interpreter."""

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._ends: SimpleQueue[BaseException | None] = SimpleQueue()
        Thread(target=_serve, args=(self._calls, self._ends), name=name, daemon=True).start()

    def run(self, call: Callable[[], object], timeout: float) -> None:
        """Run ``call`` and wait for its end, at most ``timeout`` seconds.

        Raises:
            Stuck: it did not end; these calls are of no use any more.
            BaseException: whatever the call raised.
        """
        self._calls.put(call)
        try:
            end = self._ends.get(timeout=timeout)
        except Empty:
            raise Stuck(f"no answer in {timeout} s") from None
        if end is not None:
            raise end

    def close(self) -> None:
        """Let the thread end, when it can."""
        self._calls.put(None)


def _serve(calls: SimpleQueue[Callable[[], object] | None], ends: SimpleQueue[BaseException | None]) -> None:
    while (call := calls.get()) is not None:
        end: BaseException | None = None
        try:
            call()
        except BaseException as failure:  # noqa: BLE001 - handed to the caller, all of it
            end = failure
        ends.put(end)
        del call, end  # an idle thread keeps nobody's producer alive
