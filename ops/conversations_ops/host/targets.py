"""Finds the service of a target.

A target ``module:attribute`` is the name of a service, of a function that returns a service, or of a context manager or generator
function that yields a service. Instead of a service, each of these may give the pair ``(service, WorkerSettings)``.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
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
from conversations.errors import DeclarationError, LogError
from conversations.service import Service

log = logging.getLogger("conversations.run")

PATIENCE = 3.0
"""Seconds that an event loop has to run a callback. If it needs longer, it is treated as blocked for good."""

T = TypeVar("T")
HOW = "Write it as module:attribute, for instance shop.orders:service for 'service' in shop/orders.py"


class TargetError(DeclarationError):
    """The target cannot be found, or it gives no service. The message says why."""


class TargetFailed(TargetError):
    """The function or the context manager of a target raised an exception. A later call may succeed, for example when a database is back."""


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
        TargetFailed: the function or the context manager raised an exception before it gave a service.
        DeclarationError: the module has an invalid declaration.
        LogError: the function or the context manager used Kafka, and Kafka failed.
    """
    found = _find(target)
    with _failing(target):
        found = _called(target, found, loop)
    if (given := _given(found)) is not None:
        yield given
    elif isinstance(found, AbstractContextManager):
        with contextlib.ExitStack() as stack:
            with _failing(target):
                service = stack.enter_context(found)
            yield _checked(target, service)
    elif isinstance(found, AbstractAsyncContextManager):
        with _failing(target):
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


@contextlib.contextmanager
def _failing(target: str) -> Iterator[None]:
    """If the code of a target raises an exception, raise ``TargetFailed`` with the place. Our own errors already say what to do."""
    try:
        yield
    except (DeclarationError, LogError):
        raise
    except Exception as error:
        raise TargetFailed(f"{target!r} fails with {error!r}:{_place(error)}") from error


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
        raise TargetError(f"{target!r} names a file. {HOW}; {_instead(Path(name), attribute)}.")
    if not colon or not attribute or not name:
        listed = _hint(_import(target, name)) if name and not colon else ""
        raise TargetError(f"{target!r} does not say which attribute of which module to run. {HOW}.{listed}")
    module = _import(target, name)
    found: Any = module
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            text = f"module {name!r} has no {attribute!r}.{_hides(module)}{_hint(module)} {HOW}."
            raise TargetError(text) from None
    return found


def _instead(file: Path, attribute: str) -> str:
    """Say how a target is written whose file somebody named. If the module can be imported, name the services that it has."""
    here = Path.cwd()
    inside = file.relative_to(here) if file.is_relative_to(here) else file
    dotted = ".".join(part for part in inside.with_suffix("").parts if part not in {".", "..", "/"})
    with contextlib.suppress(TargetError, DeclarationError):
        if not attribute and (listed := _services(_import(dotted, dotted))):
            return f"here {' or '.join(listed)}"
    return f"here perhaps {dotted}:{attribute or 'service'}"


def _services(module: ModuleType) -> list[str]:
    return [f"{module.__name__}:{name}" for name, value in vars(module).items() if isinstance(value, Service)]


def _hint(module: ModuleType) -> str:
    services = _services(module)
    return f" Services there: {', '.join(services)}." if services else ""


def _hides(module: ModuleType) -> str:
    """Return a note if a module of Python hides a file of the current directory; else an empty text."""
    top = module.__name__.partition(".")[0]
    theirs = Path(getattr(sys.modules[top], "__file__", None) or "")
    files = [
        file
        for file in (Path(f"{top}.py"), Path(top))
        if file.exists() and file.resolve() not in {theirs, theirs.parent}
    ]
    if top not in sys.stdlib_module_names or not files:
        return ""
    return f" {top!r} is a module of Python itself, and it hides ./{files[0]}: give {files[0]} another name."


def _import(target: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except DeclarationError:
        raise
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _broken(target, error) from error
        parent = sys.modules.get(error.name.rpartition(".")[0])
        if parent is not None and not hasattr(parent, "__path__"):
            raise TargetError(_no_package(target, parent, error.name.rpartition(".")[2])) from None
        here = str(Path.cwd())
        places = ", ".join([f"{here} (the current directory)", *[it for it in sys.path if it != here][:3]])
        text = f"{target!r}: there is no module {error.name!r} in {places}, ...{_hidden(error.name)} {HOW}."
        raise TargetError(text) from None
    except Exception as error:
        raise _broken(target, error) from error


def _no_package(target: str, module: ModuleType, attribute: str) -> str:
    """Describe a target with a dot behind a module, where a colon belongs."""
    name = module.__name__
    meant = f" A colon comes between module and attribute: {name}:{attribute}." if hasattr(module, attribute) else ""
    return f"{target!r}: {name!r} is a module and contains no modules.{meant}{_hides(module)}{_hint(module)} {HOW}."


def _broken(target: str, error: Exception) -> TargetError:
    hidden = _hidden(error.name) if isinstance(error, ModuleNotFoundError) else ""
    says = f"SyntaxError: {error}" if isinstance(error, SyntaxError) else repr(error)
    return TargetError(f"{target!r} cannot be imported, its code fails with {says}:{hidden}{_place(error)}")


def _place(error: Exception) -> str:
    """Return the last lines of the stack of an exception, without the frames of this module and of those that it calls."""
    between = ("importlib", contextlib.__file__, concurrent.futures._base.__file__, __file__)  # noqa: SLF001 - only its path
    frames = traceback.TracebackException.from_exception(error).stack
    ours = [frame for frame in frames if not any(part in frame.filename for part in between)]
    return f"\n{''.join(traceback.format_list(ours[-3:]))}".rstrip()


def _hidden(name: str | None) -> str:
    """Return a note about the loaded package with the first part of a dotted name; an empty text if no such package is loaded."""
    top = sys.modules.get(str(name).partition(".")[0])
    if top is None or not hasattr(top, "__path__"):
        return ""
    return f" (the package {top.__name__!r} is already loaded from {', '.join(top.__path__)})"
