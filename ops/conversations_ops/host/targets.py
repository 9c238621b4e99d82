"""Finds the service of a target.

A target ``module:attribute`` is the name of a service, of a function that returns a service, or of a context manager or generator
function that yields a service. Instead of a service, each of these may give the pair ``(service, WorkerSettings)``.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import logging
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, Self, TypeVar

from conversations.config import WorkerSettings
from conversations.errors import DeclarationError
from conversations.service import Service

log = logging.getLogger("conversations.run")

PATIENCE = 3.0
"""Seconds that an event loop has to run a callback. If it needs longer, it is treated as blocked for good."""

T = TypeVar("T")
HOW = "Write it as module:attribute, for instance shop.orders:service for 'service' in shop/orders.py"


class TargetError(DeclarationError):
    """The target cannot be found, or it gives no service. The message says why."""


class Found(NamedTuple):
    """The service of a target, with its settings."""

    service: Service[Any]
    settings: WorkerSettings | None
    """The worker settings of the target; None if the target gives only a service."""


class HandlerLoop:
    """An event loop in its own thread, made at the first use.

    An ``async`` target and its handlers run on the same loop. So handlers can use connections that the target opened.
    """

    def __init__(self) -> None:
        self.made: asyncio.AbstractEventLoop | None = None
        """The loop; None before its first use."""
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.made is not None and self._thread is not None:
            self.made.call_soon_threadsafe(self.made.stop)
            self._thread.join(PATIENCE)
            if not self._thread.is_alive():  # else a handler blocks the loop; the thread ends with the process
                self.made.close()

    def comes_round(self) -> bool:
        """Return True if the loop still runs callbacks, False if a handler blocks it."""
        if self.made is None:
            return True
        turned = threading.Event()
        self.made.call_soon_threadsafe(turned.set)
        return turned.wait(PATIENCE)

    def wait_for(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and return its result."""
        if self.made is None:
            self.made = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self.made.run_forever, name="handlers-loop", daemon=True)
            self._thread.start()
        return asyncio.run_coroutine_threadsafe(coroutine, self.made).result()


@contextlib.contextmanager
def entered(target: str, loop: HandlerLoop) -> Iterator[Found]:
    """Find a target and yield its service.

    If the target is a context manager, enter it first and leave it at the end. Enter and leave an ``async`` context manager on ``loop``.

    Raises:
        TargetError: the module or the attribute does not exist, or the attribute gives no service.
        DeclarationError: the module has an invalid declaration.
    """
    found = _called(target, _find(target), loop)
    if (given := _given(found)) is not None:
        yield given
    elif isinstance(found, AbstractContextManager):
        with found as service:
            yield _checked(target, service)
    elif isinstance(found, AbstractAsyncContextManager):
        service = loop.wait_for(_awaited(found.__aenter__))
        try:
            yield _checked(target, service)
        except BaseException:
            if not loop.comes_round() or not loop.wait_for(_awaited(lambda: found.__aexit__(*sys.exc_info()))):
                raise
        else:
            if loop.comes_round():
                loop.wait_for(_awaited(lambda: found.__aexit__(None, None, None)))
            else:
                log.error("the context manager %s is not left: a handler blocks its event loop", target)
    else:
        raise TargetError(
            f"{target} is {found!r:.200}. It is neither a Service nor (Service, WorkerSettings), and no context manager for them. {HOW}."
        )


async def _awaited(call: Callable[[], Any]) -> Any:
    return await call()


def _given(value: object) -> Found | None:
    match value:
        case Service():
            return Found(value, None)
        case (Service() as service, WorkerSettings() as settings):
            return Found(service, settings)
        case _:
            return None


def _checked(target: str, value: object) -> Found:
    given = _given(value)
    if given is None:
        raise TargetError(
            f"the context manager {target} must yield a Service, or (Service, WorkerSettings), not {value!r:.200}"
        )
    return given


def _called(target: str, found: Any, loop: HandlerLoop) -> Any:
    if isinstance(found, Service | tuple | AbstractContextManager | AbstractAsyncContextManager) or not callable(found):
        return found
    try:
        inspect.signature(found).bind()
    except TypeError as error:
        raise TargetError(f"{target} must be callable without arguments to give a Service: {error}") from None
    if inspect.isgeneratorfunction(found):
        return contextlib.contextmanager(found)()
    if inspect.isasyncgenfunction(found):
        return contextlib.asynccontextmanager(found)()
    if inspect.iscoroutinefunction(found):
        return loop.wait_for(found())
    return found()


def _find(target: str) -> Any:
    name, colon, attribute = target.partition(":")
    if name.endswith(".py") or "/" in name:
        dotted = ".".join(Path(name).with_suffix("").parts).lstrip(".")
        raise TargetError(f"{target!r} names a file. {HOW}; here perhaps {dotted}:{attribute or 'service'}.")
    if not colon or not attribute or not name:
        listed = _hint(_import(target, name)) if name and not colon else ""
        raise TargetError(f"{target!r} does not say which attribute of which module to run. {HOW}.{listed}")
    found: Any = _import(target, name)
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise TargetError(f"module {name!r} has no {attribute!r}.{_hint(sys.modules[name])} {HOW}.") from None
    return found


def _hint(module: ModuleType) -> str:
    services = [f"{module.__name__}:{name}" for name, value in vars(module).items() if isinstance(value, Service)]
    return f" Services there: {', '.join(services)}." if services else ""


def _import(target: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except DeclarationError:
        raise
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _broken(target, error) from error
        here = str(Path.cwd())
        places = ", ".join([f"{here} (the current directory)", *[it for it in sys.path if it != here][:3]])
        text = f"{target!r}: there is no module {error.name!r} in {places}, ...{_hidden(error.name)} {HOW}."
        raise TargetError(text) from None
    except Exception as error:
        raise _broken(target, error) from error


def _broken(target: str, error: Exception) -> TargetError:
    frames = traceback.TracebackException.from_exception(error)
    ours = [frame for frame in frames.stack if "importlib" not in frame.filename and frame.filename != __file__]
    where = "".join(traceback.format_list(ours[-3:]))
    hidden = _hidden(error.name) if isinstance(error, ModuleNotFoundError) else ""
    return TargetError(f"{target!r} cannot be imported, its code fails with {error!r}:{hidden}\n{where}".rstrip())


def _hidden(name: str | None) -> str:
    """Return a note about the loaded package with the first part of a dotted name; an empty text if no such package is loaded."""
    top = sys.modules.get(str(name).partition(".")[0])
    return (
        f" (the package {top.__name__!r} is already loaded from {', '.join(top.__path__)})" if top is not None else ""
    )
