"""Shows the progress of slow work on stderr: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import Protocol

import rich.progress
from rich.console import Console


class Progress(Protocol):
    """Receives the progress of work. Several threads may call it."""

    def advance(self, amount: int) -> None:
        """Report that ``amount`` more units are done."""


class Bar:
    """A rich progress bar."""

    def __init__(self, display: rich.progress.Progress, task: rich.progress.TaskID) -> None:
        self._display = display
        self._task = task

    def advance(self, amount: int) -> None:
        self._display.advance(self._task, amount)


class Lines:
    """Prints a line after each quarter of the work."""

    def __init__(self, title: str, total: int) -> None:
        self._title = title
        self._total = total
        self._done = 0
        self._lock = threading.Lock()

    def advance(self, amount: int) -> None:
        with self._lock:
            before, self._done = self._done, self._done + amount
            quarter = 4 * min(self._done, self._total) // self._total
            if quarter > 4 * min(before, self._total) // self._total:
                print(f"{self._title}: {25 * quarter} %", file=sys.stderr, flush=True)  # noqa: T201 - its purpose


@contextlib.contextmanager
def progress(title: str, total: int) -> Iterator[Progress]:
    """Show progress towards ``total`` bytes while the block runs."""
    if not sys.stderr.isatty():
        print(title, file=sys.stderr, flush=True)  # noqa: T201 - its purpose
        yield Lines(title, total)
        return
    columns = (
        rich.progress.TextColumn("{task.description}"),
        rich.progress.BarColumn(),
        rich.progress.DownloadColumn(),
        rich.progress.TransferSpeedColumn(),
    )
    with rich.progress.Progress(*columns, console=Console(stderr=True)) as display:
        yield Bar(display, display.add_task(title, total=total))
