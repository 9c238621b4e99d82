"""The clock of a worker process, off by a while: every place of the product that asks for the time asks Python's ``time``."""

from __future__ import annotations

import time


def shift(seconds: float) -> None:
    """Move this process's wall clock; to be called before anything that asks for the time is imported."""
    now, now_ns = time.time, time.time_ns
    nanoseconds = round(seconds * 1_000_000_000)
    time.time = lambda: now() + seconds
    time.time_ns = lambda: now_ns() + nanoseconds
