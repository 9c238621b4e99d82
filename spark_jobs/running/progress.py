"""The progress of Spark on stderr, while a job runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EVERY = 0.5
"""Seconds between two updates."""


@contextlib.contextmanager
def shown(spark: SparkSession, what: str) -> Iterator[None]:
    """Show the tasks of running stages if stderr is a terminal; otherwise show nothing."""
    console = Console(stderr=True)
    context: Any = getattr(spark, "_sc", None)
    if not console.is_terminal or context is None:
        yield
        return
    over = Event()
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True) as progress:
        thread = Thread(target=_follow, args=(context, progress, what, over), daemon=True, name="progress of Spark")
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def _follow(context: Any, progress: Progress, what: str, over: Event) -> None:
    task = progress.add_task(what, total=None)
    tracker = context.statusTracker()
    while not over.wait(_EVERY):
        try:
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        except Exception:  # noqa: BLE001 - py4j's own errors, when the session ends meanwhile: nothing is left to show
            return
        known = [stage for stage in stages if stage is not None]
        if known:
            done, total = sum(it.numCompletedTasks for it in known), sum(it.numTasks for it in known)
            progress.update(
                task, completed=done, total=total, description=f"{what}: {known[0].name.partition(' at ')[0]}"
            )
