"""Waits until no other program uses the processors, because figures that are measured beside other work mean nothing."""

from __future__ import annotations

import time
from pathlib import Path

STAT = Path("/proc/stat")
WINDOW = 0.5
PATIENCE = 15.0
QUIET = 0.15
"""Share of the processors' time up to which the machine counts as quiet. It is not 0, because the broker cleans up between runs."""


def settle(patience: float = PATIENCE) -> float:
    """Wait at most ``patience`` seconds for half a second of quiet. Return the busy share of the processors at the end (0 to 1)."""
    deadline = time.monotonic() + patience
    while (busy := _busy()) > QUIET and time.monotonic() < deadline:
        pass
    return round(busy, 2)


def _busy() -> float:
    """Return the busy share of the processors in the next half second; 0 if the system does not tell."""
    if not STAT.exists():
        return 0.0
    idle, total = _times()
    time.sleep(WINDOW)
    idle_after, total_after = _times()
    return 1 - (idle_after - idle) / max(1, total_after - total)


def _times() -> tuple[int, int]:
    """Return the idle ticks (waits for disks included) and all ticks since the system started."""
    ticks = [int(word) for word in STAT.read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)
