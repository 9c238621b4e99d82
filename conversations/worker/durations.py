"""Durations of handlers and commits, as numbers of durations up to fixed bounds."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from typing import Final

from conversations.metrics import BOUNDS

QUICK: Final = BOUNDS[0]


class Durations:
    """Durations of the handlers of one worker by their names, and of its commits.

    A duration of a handler is only appended to the list of this step in ``took``, because this costs least. ``fold`` counts the lists, once a
    step.
    """

    __slots__ = ("commits", "handlers", "took")

    def __init__(self) -> None:
        self.took: defaultdict[str, list[float]] = defaultdict(list)
        """Durations of this step in seconds, by the name of the handler that returned or failed."""
        self.handlers: dict[str, list[float]] = {}
        """For each handler, the number of durations in each interval, those above all bounds, and last the sum of all durations in seconds."""
        self.commits: list[float] = _empty()
        """The same for commits that took effect."""

    def fold(self) -> None:
        """Count the durations of this step, and forget them. The caller holds the lock of the worker."""
        for name, took in self.took.items():
            if not took:
                continue
            found = self.handlers.get(name)
            if found is None:
                found = self.handlers[name] = _empty()
            # Mostly all are quick. ``max`` and ``sum`` cost less than a loop.
            longer = [it for it in took if it > QUICK] if max(took, default=0.0) > QUICK else []
            found[0] += len(took) - len(longer)
            found[-1] += sum(took)
            for seconds in longer:
                found[bisect_left(BOUNDS, seconds)] += 1
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
