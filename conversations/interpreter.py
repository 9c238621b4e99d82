"""Settings of Python's cyclic garbage collector for a process that only runs workers or a forwarder."""

from __future__ import annotations

import gc

YOUNGEST = 50_000
"""Number of new objects after which the collector runs. One step makes about as many objects. Python's default is 700."""


def relax() -> None:
    """Make the collector look for reference cycles about once per step, and not dozens of times.

    A step makes tens of thousands of short-lived objects, which reference counting frees. A search of these
    objects dozens of times per step costs about a fifth of the throughput (design decision 0006). The settings apply to the whole
    interpreter. So call this function only in a process that only runs workers or a forwarder.
    """
    gc.collect()
    gc.freeze()  # the modules loaded so far stay until the process ends; the collector skips them from now on
    gc.set_threshold(YOUNGEST, 20, 50)
