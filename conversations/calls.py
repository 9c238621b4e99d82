"""One run of one handler."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass
from inspect import isawaitable, iscoroutine
from typing import Any

from conversations.dialog import Dialog
from conversations.handlers import Handler
from conversations.logs import handling
from conversations.tracing import Span

log = logging.getLogger("conversations.worker")


@dataclass(slots=True, eq=False)
class Call:
    """One run of one handler. The last element of ``arguments`` is the dialog."""

    handler: Handler
    arguments: tuple[Any, ...]
    refused: BaseException | None = None
    """The failure of a handler that returned, and whose state cannot be kept; None if its effects are kept."""
    span: Span | None = None
    """The span of the call in a trace; None if the service does not trace."""

    def refuse(self, failure: BaseException) -> None:
        """Note that the handler returned, and has failed, because its state cannot be kept."""
        self.refused = failure

    def over(self) -> None:
        """Make each later request on the dialog raise ``HandlerOver``. Called when the run is over, or when its results are refused."""
        dialog = self.arguments[-1]
        if isinstance(dialog, Dialog):
            dialog._draft.close()  # noqa: SLF001 - private, because a handler must not close its own draft


def invoke(call: Call) -> BaseException | None:
    """Run a ``def`` handler. Return the exception that the handler raised; None if the handler succeeded."""
    span = call.span
    handling(call.arguments[-1])
    if span is not None:
        span.begin()
    try:
        result = call.handler.function(*call.arguments)
        failure = None if result is None else _returned(call.handler, result)
    except BaseException as error:  # noqa: BLE001 - a handler may raise anything; the worker decides what follows
        if span is not None:
            span.end(error)
        return error
    finally:
        handling(None)
    if span is not None:
        span.end(failure)
    return failure


def _returned(handler: Handler, result: object) -> TypeError | None:
    """Return the error for a handler that returned a coroutine or a generator, whose code did not run. Warn once of any other value."""
    if isawaitable(result) or isinstance(result, Generator | AsyncGenerator):
        if iscoroutine(result):
            result.close()  # otherwise Python warns that the coroutine was never awaited
        return TypeError(
            f"handler {handler.name} returned {type(result).__name__}, which is never run: write it as `async def`, without yield"
        )
    if not handler.warned:
        handler.warned.append(True)
        log.warning(
            "handler %s returned a value of class %s, which is ignored: use dialog.send(...)",
            handler.name, type(result).__name__,
        )  # fmt: skip
    return None


async def invoke_async(call: Call) -> BaseException | None:
    """Run an ``async def`` handler. Return the exception that the handler raised; None if the handler succeeded."""
    span = call.span
    handling(call.arguments[-1])
    if span is not None:
        span.begin()
    try:
        result = await call.handler.function(*call.arguments)
        failure = None if result is None else _returned(call.handler, result)
    except BaseException as error:  # noqa: BLE001 - a handler may raise anything; the worker decides what follows
        if span is not None:
            span.end(error)
        return error
    finally:
        handling(None)
    if span is not None:
        span.end(failure)
    return failure
