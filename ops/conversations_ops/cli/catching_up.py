"""Shows on stderr that the read model is brought up to date, if this takes long."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import rich.progress
from rich.console import Console

from conversations.config import Kafka
from conversations_ops.read_model.file import File
from conversations_ops.read_model.projector import Told, current

QUICK = 1.0
"""Seconds without a bar. Most commands need less."""


@contextmanager
def read_model(kafka: Kafka) -> Iterator[File]:
    """Give the block the read model of a namespace, up to date. A bar is shown if bringing it up to date takes long.

    Raises:
        DeclarationError: there is no such namespace.
        LogError: a topic cannot be read, or the file cannot be written.
    """
    with bar() as told, current(kafka, told) as file:
        yield file


@contextmanager
def bar() -> Iterator[Told]:
    """Give the block a function that is told the progress. It shows a bar on a terminal, if the work is not quick."""
    columns = (
        rich.progress.TextColumn("{task.description}"), rich.progress.BarColumn(), rich.progress.MofNCompleteColumn(),
        rich.progress.TimeRemainingColumn(),
    )  # fmt: skip
    console, began = Console(stderr=True), time.monotonic()
    display = rich.progress.Progress(*columns, console=console, transient=True)
    task = display.add_task("Reading new records", total=None)

    def told(done: int, total: int) -> None:
        display.update(task, completed=done, total=total)
        # It starts late, so that a quick command writes no control characters.
        if console.is_terminal and done < total and time.monotonic() - began > QUICK:
            display.start()

    try:
        yield told
    finally:
        if display.live.is_started:
            display.stop()
