"""Durations of handlers and commits, as numbers of durations below fixed bounds. A duration costs less than a microsecond to note."""

from __future__ import annotations

from bisect import bisect_left

from conversations.metrics import BOUNDS


class Durations:
    """Durations of the handlers of one worker by their names, and of its commits."""

    __slots__ = ("commits", "handlers")

    def __init__(self) -> None:
        self.handlers: dict[str, list[float]] = {}
        """For each handler, the number of durations in each interval, those above all bounds, and last the sum of all durations in seconds."""
        self.commits: list[float] = _empty()
        """The same for commits that took effect."""

    def handler_took(self, name: str, seconds: float) -> None:
        """Note the duration of a handler that returned or failed."""
        found = self.handlers.get(name)
        if found is None:
            found = self.handlers[name] = _empty()
        found[bisect_left(BOUNDS, seconds)] += 1
        found[-1] += seconds

    def commit_took(self, seconds: float) -> None:
        """Note the duration of a commit that took effect."""
        self.commits[bisect_left(BOUNDS, seconds)] += 1
        self.commits[-1] += seconds

    def plain(self) -> dict[str, object]:
        """Return a copy as plain data."""
        return {
            "handlers": {name: list(found) for name, found in self.handlers.items()},
            "commits": list(self.commits),
        }


def _empty() -> list[float]:
    return [0] * (len(BOUNDS) + 1) + [0.0]
