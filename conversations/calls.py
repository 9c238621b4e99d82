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
    """One run of one handler; the last argument is its dialog."""

    handler: Handler
    arguments: tuple[Any, ...]

    def over(self) -> None:
        """Whatever is asked for on its dialog from now on raises: it returned, or its results are refused."""
        dialog = self.arguments[-1]
        if isinstance(dialog, Dialog):
            dialog._draft.close()  # noqa: SLF001 - a handler must not be able to


def invoke(call: Call) -> BaseException | None:
    """Run a ``def`` handler and return the exception it raised."""
    handling(call.arguments[-1])
    try:
        result = call.handler.function(*call.arguments)
        if result is not None and _promises(result):
            return _not_run(call, result)
    except BaseException as error:  # noqa: BLE001 - a handler may raise anything; it is judged by the owner
        return error
    finally:
        handling(None)
    return None


def _promises(result: object) -> bool:
    return isawaitable(result) or isinstance(result, Generator | AsyncGenerator)


def _not_run(call: Call, result: object) -> TypeError:
    """Say that a handler only made a coroutine or generator, of which nothing was run."""
    if iscoroutine(result):
        result.close()  # or Python warns that nobody awaited it
    return TypeError(
        f"handler {call.handler.name} returned {type(result).__name__}, which nobody runs: write it as `async def`, without yield"
    )


async def invoke_async(call: Call) -> BaseException | None:
    """Run an ``async def`` handler and return the exception it raised."""
    handling(call.arguments[-1])
    try:
        result = await call.handler.function(*call.arguments)
        if result is not None and _promises(result):
            return _not_run(call, result)
    except BaseException as error:  # noqa: BLE001 - a handler may raise anything; it is judged by the owner
        return error
    finally:
        handling(None)
    return None
