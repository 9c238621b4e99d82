"""Measures and reports the time of a contender's process, from its first record to its last commit."""

from __future__ import annotations

import json
import sys
import time

from bench import memory

MARK = "bench-result "
"""First characters of the output line with the result."""


class Stopwatch:
    """Wall-clock and CPU time (all threads of the process) of the measured part."""

    def __init__(self) -> None:
        self._wall = self._cpu = 0.0
        self.running = False
        self.lap: dict[str, float] = {}
        """Messages and seconds at about the time when every dialog had its first message."""

    def start(self) -> None:
        """Start at the first record. Further calls do nothing."""
        if not self.running:
            self.running, self._wall, self._cpu = True, time.perf_counter(), time.process_time()

    def elapsed(self) -> tuple[float, float]:
        """Return the seconds of wall clock and of CPU since the start."""
        return time.perf_counter() - self._wall, time.process_time() - self._cpu

    def opened(self, messages: int) -> None:
        """Note that ``messages`` messages are committed, and that all dialogs are open. Further calls do nothing."""
        if not self.lap:
            self.lap = {"messages": messages, "seconds": self.elapsed()[0]}


def report(
    messages: int,
    elapsed: tuple[float, float],
    commits: int,
    *,
    late: int = 0,
    lap: dict[str, float] | None = None,
    form: str | None = None,
    **versions: str,
) -> None:
    """Write the result of the run to standard output, for the benchmark."""
    told = {
        "messages": messages,
        "seconds": elapsed[0],
        "cpu_seconds": elapsed[1],
        "commits": commits,
        "late": late,
        "lap": lap or {},
        "peak_mb": memory.peak_mb() if memory.is_told() else None,
        "form": form,
        "versions": versions,
    }
    sys.stdout.write(f"\n{MARK}{json.dumps(told)}\n")
    sys.stdout.flush()
