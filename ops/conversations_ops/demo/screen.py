"""The screen of the demo: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Protocol

import rich.progress
from rich.console import Console

STEPS = 10
"""Number of lines that show the progress where no bar can be drawn."""


class Progress(Protocol):
    """Receives the progress of work."""

    def at(self, done: int, note: str) -> None:
        """Report that ``done`` units of the total are done, with a note for the screen."""


class Bar:
    """A rich progress bar."""

    def __init__(self, display: rich.progress.Progress, task: rich.progress.TaskID) -> None:
        self._display = display
        self._task = task

    def at(self, done: int, note: str) -> None:
        """Move the bar."""
        self._display.update(self._task, completed=done, note=note)


class Lines:
    """Prints a line after each tenth of the work."""

    def __init__(self, console: Console, total: int) -> None:
        self._console = console
        self._total = total
        self._told = 0

    def at(self, done: int, note: str) -> None:
        """Print a line when another tenth is done."""
        step = STEPS * done // self._total
        if step > self._told:
            self._told = step
            self._console.print(f"  {done:,} of {self._total:,}  {note}", highlight=False, soft_wrap=True)


class Screen:
    """Shows the progress of the demo."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def say(self, text: str) -> None:
        """Print a line."""
        self.console.print(text, highlight=False, soft_wrap=True)

    @contextlib.contextmanager
    def progress(self, title: str, total: int) -> Iterator[Progress]:
        """Show progress while the block runs."""
        if not self.console.is_terminal:
            self.say(title)
            yield Lines(self.console, total)
            return
        columns = (
            rich.progress.TextColumn("{task.description}"),
            rich.progress.BarColumn(),
            rich.progress.MofNCompleteColumn(),
            rich.progress.TimeElapsedColumn(),
            rich.progress.TextColumn("{task.fields[note]}"),
        )
        with rich.progress.Progress(*columns, console=self.console) as display:
            yield Bar(display, display.add_task(title, total=total, note=""))
