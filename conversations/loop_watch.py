"""The watch that detects that an event loop is blocked, and logs the code that blocks the loop."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, Protocol

from conversations.logs import handled_in

log = logging.getLogger("conversations.scheduler")

EVERY = 0.25
"""Seconds between two probes of an event loop that answers."""
BLOCKED = 1.0
"""Seconds without an answer after which an event loop counts as blocked."""
STACK = 12
"""Maximum number of stack frames of the blocking code in the log line. They are the innermost frames."""


class Culprit(Protocol):
    """The run whose handler blocks the event loop."""

    @property
    def call(self) -> Any: ...


class LoopWatch:
    """A watch that sends probes to an event loop. One thread sends the probes, and the thread of the loop answers them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread: int | None = None
        self._asked_at = 0.0
        self._waiting = False
        self.blocked = False
        """True while the loop counts as blocked. The watch sets it to False when it sees an answer."""

    def here(self) -> None:
        """Note the loop's thread. Called on the loop."""
        self._thread = threading.get_ident()

    def look(self, culprit: Callable[[], Culprit | None]) -> None:
        """Send a probe, or check whether the last probe was answered. Log one line when the loop is blocked, and one when it runs again."""
        now = time.monotonic()
        silent = now - self._asked_at
        if not self._waiting:
            if self.blocked:
                self.blocked = False
                log.warning("the event loop of async handlers goes on")
            if silent >= EVERY and not self._loop.is_closed():
                self._waiting, self._asked_at = True, now
                self._loop.call_soon_threadsafe(self._answer)
        elif silent >= BLOCKED and not self.blocked:
            self.blocked = True
            self._tell(silent, culprit())

    def running(self) -> tuple[asyncio.Task[Any] | None, object]:
        """Return the task that runs on the loop now, and its dialog. A task that a handler started has the handler's dialog."""
        task = asyncio.current_task(self._loop)
        # Before Python 3.12 the context of a task cannot be read.
        context_of = getattr(task, "get_context", None)
        return task, None if context_of is None else handled_in(context_of())

    def _answer(self) -> None:
        self.here()
        self._waiting = False

    def _tell(self, silent: float, culprit: Culprit | None) -> None:
        frame = sys._current_frames().get(self._thread or 0)  # noqa: SLF001 - the only way to see another thread's stack
        where = "".join(traceback.format_stack(frame)[-STACK:]) if frame is not None else ""
        call = None if culprit is None else culprit.call
        log.error(
            "%s blocks the event loop of async handlers for %.1f s, and every other handler there waits for it: "
            "let it await, use asyncio.to_thread, or make it a def handler\n%s",
            "something" if call is None else f"handler {call.handler.name}",
            silent,
            where,
            extra={} if call is None else call.arguments[-1].log_fields,
        )
