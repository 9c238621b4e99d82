"""Waiting for a condition: a test checks the condition again and again, and fails if the condition stays false too long."""

import os
from collections.abc import Callable
from threading import Event
from time import monotonic
from typing import TypeVar

from conversations.worker import Worker

T = TypeVar("T")

SLOWER = 3 if "PYTEST_XDIST_WORKER" in os.environ else 1
"""Factor for all time limits of tests. Processes that share a machine may each be several times slower than one process alone."""


def until(
    condition: Callable[[], T], what: str = "the awaited condition", seconds: float = 90, *, pause: float = 0.02
) -> T:
    """Check ``condition`` again and again until its result is true, and return the result.

    ``what`` names the condition in the error. ``seconds`` is the longest time to wait on a machine that only this process uses; ``SLOWER``
    makes it longer on a shared machine. ``pause`` is the number of seconds between two checks. It is 0 if the condition itself polls or
    steps.
    """
    seconds *= SLOWER
    deadline = monotonic() + seconds
    while not (found := condition()):
        assert monotonic() < deadline, f"not within {seconds:g} s: {what}"
        if pause:
            Event().wait(pause)
    return found


def step_until(condition: Callable[[], object], *workers: Worker, seconds: float) -> None:
    """Let the workers do steps, one worker after the other, until ``condition`` is true. Fail after ``seconds`` seconds."""

    def met() -> bool:
        if condition():
            return True
        for worker in workers:
            worker.step()
        return False

    until(met, seconds=seconds, pause=0)
