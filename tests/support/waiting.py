"""Waiting for what really happens: a test looks until it is so, and fails when it takes too long."""

from collections.abc import Callable
from threading import Event
from time import monotonic
from typing import TypeVar

from conversations.worker import Worker

T = TypeVar("T")


def until(
    condition: Callable[[], T], what: str = "what was waited for", seconds: float = 90, *, pause: float = 0.02
) -> T:
    """Look again and again until ``condition`` is true, and return it.

    ``pause`` is the time between two looks while others work; none for a condition that polls or steps by itself.
    """
    deadline = monotonic() + seconds
    while not (found := condition()):
        assert monotonic() < deadline, f"not within {seconds:g} s: {what}"
        if pause:
            Event().wait(pause)
    return found


def step_until(condition: Callable[[], object], *workers: Worker, seconds: float) -> None:
    """Step the workers in turn until ``condition`` is true."""

    def met() -> bool:
        if condition():
            return True
        for worker in workers:
            worker.step()
        return False

    until(met, seconds=seconds, pause=0)
