"""Settings of Python's cyclic garbage collector, and of the allocator below it, for a process that only runs workers or a forwarder."""

from __future__ import annotations

import ctypes
import gc
import os

YOUNGEST = 50_000
"""Number of new objects at which the collector runs. A step of small messages has fewer at a time. Python's default is 700."""

LARGE = 4 * 1024 * 1024
"""Bytes from which on the allocator asks the system for memory of its own, and gives it back as soon as it is free. Fragments are smaller: new memory for
each of them would cost more than everything else that is done with it."""
SPARE = 8 * 1024 * 1024
"""Bytes of free memory that the allocator keeps at the end of a heap."""
HEAPS = 2
"""Number of heaps of the allocator for all threads. By default there are up to eight for each core, and what is free in one is of no use to the threads of
another. Python's own lock lets one thread of a process run at a time, so threads seldom wait for a heap. Heaps that are there already stay."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Numbers of these options of glibc's ``mallopt``."""


def relax() -> None:
    """Make the collector look for reference cycles when something stays, and not dozens of times per step.

    A step makes tens of thousands of short-lived objects, which reference counting frees. A search of these
    objects dozens of times per step costs about a fifth of the throughput (design decision 0006). The settings apply to the whole
    interpreter. So call this function only in a process that only runs workers or a forwarder.
    """
    gc.collect()
    gc.freeze()  # the modules loaded so far stay until the process ends; the collector skips them from now on
    gc.set_threshold(YOUNGEST, 20, 50)
    give_back()


def give_back() -> None:
    """Let the allocator give the memory of very large values back to the system at once.

    By default glibc raises its thresholds for that up to 32 MB and 64 MB, as soon as such a value was freed, and each thread may have a heap of its own. Then a
    process keeps hundreds of megabytes after large messages. Another allocator ignores this. The environment variable ``MALLOC_ARENA_MAX`` goes first.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, LARGE)
        mallopt(_TRIM_THRESHOLD, SPARE)
        if "MALLOC_ARENA_MAX" not in os.environ:
            mallopt(_ARENA_MAX, HEAPS)


def trim() -> None:
    """Give free memory in the middle of heaps back to the system. It takes some milliseconds."""
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)
