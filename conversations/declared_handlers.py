"""Checks of the functions that a service registers as handlers: their arguments, their order, and the time limit."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any, get_origin

from pydantic import BaseModel

from conversations.dialog import Dialog
from conversations.errors import DeclarationError, PeerError
from conversations.handlers import Handler


def declared_handler(function: Callable[..., Any], takes: tuple[str, ...], time_limit: timedelta) -> Handler:
    """Return the handler for a function. ``takes`` are the names of its arguments; the last one is the dialog.

    Raises:
        DeclarationError: the function takes other arguments, or its annotations show another order; or the time limit is not valid.
    """
    name = getattr(function, "__qualname__", repr(function))
    if not callable(function):
        raise DeclarationError(f"{name} is not a function")
    expected = f"({', '.join(takes)})"
    try:
        signature = inspect.signature(function)
        signature.bind(*takes)
    except TypeError as error:
        raise DeclarationError(f"handler {name} must take {expected}: {error}") from error
    if len(takes) > 1:
        _check_order(name, expected, _annotations(function, signature))
    if not isinstance(time_limit, timedelta):
        raise DeclarationError(f"handler {name}: the time limit is a timedelta, not {time_limit!r:.80}")
    if time_limit <= timedelta(0):
        raise DeclarationError(f"handler {name}: the time limit must be more than zero")
    return Handler(function, inspect.iscoroutinefunction(function), time_limit.total_seconds(), name)


def _annotations(function: Callable[..., Any], signature: inspect.Signature) -> list[Any]:
    """Return the annotations of a handler's arguments. If one of them cannot be evaluated now, texts stay texts."""
    with suppress(Exception):  # an annotation is any expression, and may name what is imported only for type checkers
        signature = inspect.signature(function, eval_str=True)
    return [it.annotation for it in signature.parameters.values()]


def _check_order(name: str, expected: str, annotations: list[Any]) -> None:
    first, second = [*annotations, None][:2]
    if _is_dialog(first) or _is_body(second):
        raise DeclarationError(f"handler {name} must take {expected} in this order: its annotations show another order")


def _is_dialog(annotation: object) -> bool:
    """Return True for ``Dialog`` and ``Dialog[...]``, also as a text (``from __future__ import annotations``)."""
    if isinstance(annotation, str):
        return annotation.partition("[")[0].rpartition(".")[2] == Dialog.__name__
    return annotation is Dialog or get_origin(annotation) is Dialog


def _is_body(annotation: object) -> bool:
    if isinstance(annotation, str):
        return annotation.rpartition(".")[2] == PeerError.__name__
    return isinstance(annotation, type) and issubclass(annotation, BaseModel | PeerError)
