"""Python's cyclic garbage collector in a process that does nothing but run workers."""

from __future__ import annotations

import gc

YOUNGEST = 50_000
"""Objects made before the youngest generation is looked at: about one step's. Python's own default is 700."""


def relax() -> None:
    """Look for reference cycles once per step instead of dozens of times.

    A step makes tens of thousands of short-lived objects that reference counting frees; walking them again and again
    costs about a fifth of the throughput (design decision 0006). For processes that are the worker's own: changes the
    settings of the whole interpreter.
    """
    gc.collect()
    gc.freeze()  # modules loaded by now live as long as the process
    gc.set_threshold(YOUNGEST, 20, 50)
