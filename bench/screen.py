"""Shows a person the progress, and a line for each finished run."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


class Screen:
    """A progress bar with lines above it; a context manager."""

    def __init__(self, console: Console) -> None:
        self.console = console
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=console, refresh_per_second=2, transient=True)
        self._task = self._progress.add_task("", total=None)
        self._title = ""

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def begin(self, title: str) -> None:
        """Begin another part."""
        self._title = title
        self._progress.reset(self._task, total=None, description=title)
        self.say(f"== {title}")

    def expect(self, steps: int) -> None:
        """Say how many steps the part has."""
        self._progress.update(self._task, total=steps)

    def advance(self) -> None:
        """Count a step that is done."""
        self._progress.advance(self._task)

    def tell(self, text: str) -> None:
        """Show beside the bar what is being done."""
        self._progress.update(self._task, description=f"{self._title}: {text}")

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def warn(self, line: str) -> None:
        """Print a red line above the bar."""
        self.console.print(line, highlight=False, markup=False, soft_wrap=True, style="red")
