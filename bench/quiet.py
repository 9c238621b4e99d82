"""Waits until nobody else uses the processors: a run beside other work says nothing."""

from __future__ import annotations

import time
from pathlib import Path

STAT = Path("/proc/stat")
WINDOW = 0.5
PATIENCE = 15.0
QUIET = 0.15
"""Share of all processors' time that counts as nobody: the broker tidies up between runs."""


def settle(patience: float = PATIENCE) -> float:
    """Wait, so many seconds at most, for half a second of quiet; return how busy the processors were at last (0 to 1)."""
    deadline = time.monotonic() + patience
    while (busy := _busy()) > QUIET and time.monotonic() < deadline:
        pass
    return round(busy, 2)


def _busy() -> float:
    """Share of time the processors were busy in the next half second; 0 where the system does not tell."""
    if not STAT.exists():
        return 0.0
    idle, total = _times()
    time.sleep(WINDOW)
    idle_after, total_after = _times()
    return 1 - (idle_after - idle) / max(1, total_after - total)


def _times() -> tuple[int, int]:
    """Ticks spent idle (waiting for disks included) and in all, since the system started."""
    ticks = [int(word) for word in STAT.read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)
