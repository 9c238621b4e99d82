"""Profiles a process with one cProfile for each thread, because handlers run on threads of the pool, not on the polling thread.

Up to Python 3.11, a profiler belongs to the thread that enabled it. The polling thread gets a profiler, and a hook gives
a profiler to each thread that starts later. From Python 3.12 on, a process can have only one profiler. In that case
``INLINE`` is true, and the handlers of the profiled worker run in the polling thread.
"""

from __future__ import annotations

import cProfile
import pstats
import sys
import threading
from typing import Any

INLINE = sys.version_info >= (3, 12)
TOP = 25

WAITS = ("'acquire' of '_thread", "lock.acquire", "'get' of '_queue")
"""Built-in functions that wait for another thread. Time without the interpreter lock counts for the function that lost the lock."""

Row = tuple[float, float, float, str]
"""Own time and time with callees, both in us per message; calls per message; function."""


class Profilers:
    """The profilers of a process; they do nothing if ``wanted`` is false."""

    def __init__(self, *, wanted: bool) -> None:
        self._wanted = wanted
        self._main: cProfile.Profile | None = None
        self._others: dict[str, list[cProfile.Profile]] = {}
        if wanted and not INLINE:
            threading.setprofile(self._begin_in_thread)

    def _begin_in_thread(self, *_event: Any) -> None:
        """Replace the hook by a profiler in a new thread. The hook makes this call before the first function of the thread."""
        sys.setprofile(None)
        if threading.current_thread().daemon:  # all threads of a worker are daemons
            profiler = cProfile.Profile()
            name = threading.current_thread().name.rstrip("-0123456789")
            self._others.setdefault(name, []).append(profiler)
            profiler.enable()

    def start(self) -> None:
        """Start to profile the calling thread. Further calls do nothing."""
        if self._wanted and self._main is None:
            self._main = cProfile.Profile()
            self._main.enable()

    def stop(self, messages: int) -> None:
        """Stop, and print what each thread spent its time on."""
        if self._main is None:
            return
        self._main.disable()
        threading.setprofile(None)
        for name, profilers in {"the polling thread": [self._main], **self._others}.items():
            _print(name, profilers, messages)


def _print(name: str, profilers: list[cProfile.Profile], messages: int) -> None:
    stats = pstats.Stats(profilers[0])
    for profiler in profilers[1:]:
        stats.add(profiler)
    rows = _rows(stats, messages)
    waiting = sum(row[0] for row in rows if _waits(row[3]))
    working = [row for row in rows if not _waits(row[3])]
    print(f"\n{name}: {sum(row[0] for row in working):.1f} us per message, and {waiting:.1f} waiting")
    print(f"{'own us':>8} {'with callees':>12} {'calls':>7}  function, per message; the {TOP} with most own time")
    for own, cumulative, calls, function in working[:TOP]:
        print(f"{own:8.2f} {cumulative:12.2f} {calls:7.2f}  {function}")


def _rows(stats: pstats.Stats, messages: int) -> list[Row]:
    entries: dict[tuple[str, int, str], Any] = stats.stats  # type: ignore[attr-defined]  # has no public reader
    return sorted(
        (
            (own / messages * 1e6, cumulative / messages * 1e6, calls / messages, _named(where))
            for where, (_, calls, own, cumulative, _callers) in entries.items()
        ),
        reverse=True,
    )


def _named(where: tuple[str, int, str]) -> str:
    path, line, function = where
    if path == "~":
        return function
    parts = path.replace("\\", "/").split("/")
    return f"{'/'.join(parts[-2:])}:{line} {function}"


def _waits(function: str) -> bool:
    return any(words in function for words in WAITS)
