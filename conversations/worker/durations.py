"""Durations of handlers and commits, as numbers of durations up to fixed bounds."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from conversations.metrics import BOUNDS


class Durations:
    """Durations of the handlers of one worker by their names, and of its commits.

    The durations of a step are only appended to a list, because this costs least. ``fold`` counts them, once a step.
    """

    __slots__ = ("_took", "commits", "handler_took", "handlers")

    def __init__(self) -> None:
        self.handlers: dict[str, list[float]] = {}
        """For each handler, the number of durations in each interval, those above all bounds, and last the sum of all durations in seconds."""
        self.commits: list[float] = _empty()
        """The same for commits that took effect."""
        self._took: list[tuple[str, float]] = []
        self.handler_took: Callable[[tuple[str, float]], None] = self._took.append
        """Notes the name of a handler that returned or failed, and its duration in seconds."""

    def fold(self) -> None:
        """Count the durations that were noted since the last call. The caller holds the lock of the worker."""
        took, handlers = self._took, self.handlers
        for name, seconds in took:
            found = handlers.get(name)
            if found is None:
                found = handlers[name] = _empty()
            found[bisect_left(BOUNDS, seconds)] += 1
            found[-1] += seconds
        took.clear()

    def commit_took(self, seconds: float) -> None:
        """Note the duration of a commit that took effect."""
        self.commits[bisect_left(BOUNDS, seconds)] += 1
        self.commits[-1] += seconds

    def plain(self) -> dict[str, object]:
        """Return a copy as plain data. The caller holds the lock of the worker."""
        self.fold()
        return {
            "handlers": {name: list(found) for name, found in self.handlers.items()},
            "commits": list(self.commits),
        }


def _empty() -> list[float]:
    return [0] * (len(BOUNDS) + 1) + [0.0]
