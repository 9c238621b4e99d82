"""Signals that end a run, and how they wake the supervisor."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
from collections.abc import Iterator

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Signals that order a clean stop. A terminal that closes sends SIGHUP."""


@contextlib.contextmanager
def wakened(selector: selectors.BaseSelector) -> Iterator[int]:
    """Let signals wake the selector, and yield the descriptor from which the numbers of the signals can be read."""
    reads, writes = os.pipe()
    os.set_blocking(reads, False)
    os.set_blocking(writes, False)
    selector.register(reads, selectors.EVENT_READ)
    # A program that nohup started ignores SIGHUP, and goes on to do so.
    numbers = [it for it in (*ENDING, signal.SIGCHLD) if signal.getsignal(it) is not signal.SIG_IGN]
    before = {number: signal.signal(number, lambda *_: None) for number in numbers}
    wakeup = signal.set_wakeup_fd(writes, warn_on_full_buffer=False)
    try:
        yield reads
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in before.items():
            signal.signal(number, handler)
        selector.close()
        os.close(reads)
        os.close(writes)
