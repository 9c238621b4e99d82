"""Completes the names of services and letters in a shell, from the Kafka of the options or of the environment.

A completion must not disturb the line that a person types. So it prints no error. It looks into the read model, which gets ``PATIENCE`` to come
up to date; after that, the file is used as it is.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable
from threading import Thread
from typing import Any

import typer

from conversations.config import Kafka
from conversations_ops.cli.kafka_options import Options, kafka_of

PATIENCE = 1.0
"""Seconds after which a completion uses what is known."""
FIRST = 5.0
"""Seconds that the names of services may take if this machine has no read model of the namespace yet: only the small catalog is read."""
MOST = 1_000
"""Maximum number of letters that are offered."""


def services(context: typer.Context, incomplete: str) -> list[str]:
    """Return the names of the services that begin with a text: those of the catalog, or those of the read model if Kafka is slow."""
    from conversations.kafka.catalog import read_catalog
    from conversations_ops.read_model.services import service_names

    def names(kafka: Kafka) -> Iterable[str]:
        found: list[str] = []
        path = _path(kafka)
        _within(PATIENCE if path is not None else FIRST, lambda: found.extend(read_catalog(kafka).services))
        return found or _from_file(kafka, service_names)

    return _found(context, incomplete, names)


def parked_letters(context: typer.Context, incomplete: str) -> list[str]:
    """Return the names of the letters that wait for a decision and begin with a text."""
    from conversations_ops.read_model.letters import held_that_begin

    def names(kafka: Kafka) -> Iterable[str]:
        _catch_up(kafka)
        return _from_file(kafka, lambda file: held_that_begin(file, incomplete, MOST))

    return _found(context, incomplete, names)


def detached_letters(context: typer.Context, incomplete: str) -> list[str]:
    """Return the names of the detached letters that begin with a text."""
    from conversations_ops.read_model.letters import open_that_begin

    def names(kafka: Kafka) -> Iterable[str]:
        _catch_up(kafka)
        return _from_file(kafka, lambda file: open_that_begin(file, incomplete, MOST))

    return _found(context, incomplete, names)


def redrives(context: typer.Context, incomplete: str) -> list[str]:
    """Return the names of the redrives that begin with a text."""
    from conversations_ops.read_model.redrives import redrives as known

    def names(kafka: Kafka) -> Iterable[str]:
        return _from_file(kafka, lambda file: [it.redrive for it in known(file)])

    return _found(context, incomplete, names)


def _found(context: typer.Context, incomplete: str, names: Callable[[Kafka], Iterable[str]]) -> list[str]:
    logging.disable()  # warnings would appear in the line that a person types
    with contextlib.suppress(Exception, typer.BadParameter):
        return sorted(name for name in names(_kafka(context)) if name.startswith(incomplete))
    return []


def _within(seconds: float, act: Callable[[], object]) -> None:
    """Act in a thread, and wait for it no longer than this. The thread ends with the process; the file of the read model bears it."""

    def look() -> None:
        with contextlib.suppress(Exception):
            act()

    thread = Thread(target=look, daemon=True, name="completes")
    thread.start()
    thread.join(seconds)


def _catch_up(kafka: Kafka) -> None:
    from conversations_ops.read_model.projector import current

    def look() -> None:
        with current(kafka, lambda _done, _total: None):
            pass

    _within(PATIENCE, look)


def _from_file(kafka: Kafka, question: Callable[[Any], Iterable[str]]) -> Iterable[str]:
    """Answer a question from the file as it is."""
    from conversations_ops.read_model.file import File

    path = _path(kafka)
    if path is None:
        return []
    with File(path) as file:
        return list(question(file))


def _path(kafka: Kafka) -> Any:
    """Return the path of the read model; None if this machine has none of the namespace."""
    from conversations_ops.read_model.file import path_of

    path = path_of(kafka)
    return path if path.exists() else None


def _kafka(context: typer.Context) -> Kafka:
    """Return the Kafka of a command line that is not complete. No command runs, so no command has moved the options into the context."""
    options = context.ensure_object(Options)
    at: Any = context
    while at is not None:
        for name in ("bootstrap", "namespace", "file"):
            source = at.get_parameter_source(name)
            told = source is not None and source.name == "COMMANDLINE"
            if name in at.params and name not in options.told:
                setattr(options, name, at.params[name] or getattr(options, name))
                options.told |= {name} if told else set()
        options.settings = [*(at.params.get("setting") or ()), *options.settings]
        at = at.parent
    return kafka_of(context)
