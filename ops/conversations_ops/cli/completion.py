"""Completes the names of services and letters in a shell, from the Kafka of the options or of the environment.

A completion must not disturb the line that a person types. So it prints no error, and it gives up after ``PATIENCE``.
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

PATIENCE = 5.0
"""Seconds after which a completion has no result."""


def services(context: typer.Context, incomplete: str) -> list[str]:
    """Return the names of the services in the catalog that begin with a text."""
    from conversations.kafka.catalog import read_catalog

    return _found(context, incomplete, lambda kafka: read_catalog(kafka).services)


def parked_letters(context: typer.Context, incomplete: str) -> list[str]:
    """Return the names of the letters that wait for a decision and begin with a text."""
    from conversations_ops.operate.parked import parked_messages

    return _found(context, incomplete, lambda kafka: [it.letter for it in parked_messages(kafka) if it.due is None])


def detached_letters(context: typer.Context, incomplete: str) -> list[str]:
    """Return the names of the detached letters that begin with a text."""
    from conversations_ops.operate.open_letters import open_letters

    return _found(context, incomplete, lambda kafka: [it.letter for it in open_letters(kafka) if not it.foreign])


def _found(context: typer.Context, incomplete: str, read: Callable[[Kafka], Iterable[str]]) -> list[str]:
    found: list[str] = []

    def look() -> None:
        with contextlib.suppress(Exception):
            found.extend(sorted(name for name in read(_kafka(context)) if name.startswith(incomplete)))

    logging.disable()  # warnings would appear in the line that a person types
    reader = Thread(target=look, daemon=True, name="completes")
    reader.start()
    reader.join(PATIENCE)
    return found


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
