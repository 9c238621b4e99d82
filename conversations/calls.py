"""One run of one handler."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass
from inspect import isawaitable, iscoroutine
from typing import Any

from conversations.dialog import Dialog
from conversations.handlers import Handler
from conversations.logs import handling


@dataclass(slots=True, eq=False)
class Call:
    """One run of one handler. The last element of ``arguments`` is the dialog."""

    handler: Handler
    arguments: tuple[Any, ...]

    def over(self) -> None:
        """Make each later request on the dialog raise ``HandlerOver``. Called when the run is over, or when its results are refused."""
        dialog = self.arguments[-1]
        if isinstance(dialog, Dialog):
            dialog._draft.close()  # noqa: SLF001 - private, because a handler must not close its own draft


def invoke(call: Call) -> BaseException | None:
    """Run a ``def`` handler. Return the exception that the handler raised; None if the handler succeeded."""
    handling(call.arguments[-1])
    try:
        result = call.handler.function(*call.arguments)
        if result is not None and _promises(result):
            return _not_run(call, result)
    except BaseException as error:  # noqa: BLE001 - a handler may raise anything; the worker decides what follows
        return error
    finally:
        handling(None)
    return None


def _promises(result: object) -> bool:
    return isawaitable(result) or isinstance(result, Generator | AsyncGenerator)


def _not_run(call: Call, result: object) -> TypeError:
    """Return the error for a handler that returned a coroutine or a generator. The code of the coroutine or generator did not run."""
    if iscoroutine(result):
        result.close()  # otherwise Python warns that the coroutine was never awaited
    return TypeError(
        f"handler {call.handler.name} returned {type(result).__name__}, which is never run: write it as `async def`, without yield"
    )


async def invoke_async(call: Call) -> BaseException | None:
    """Run an ``async def`` handler. Return the exception that the handler raised; None if the handler succeeded."""
    handling(call.arguments[-1])
    try:
        result = await call.handler.function(*call.arguments)
        if result is not None and _promises(result):
            return _not_run(call, result)
    except BaseException as error:  # noqa: BLE001 - a handler may raise anything; the worker decides what follows
        return error
    finally:
        handling(None)
    return None
