"""Helpers for programs that show one run on the screen. Their log goes to a file, and SIGTERM ends them in the same way as Ctrl-C."""

from __future__ import annotations

import contextlib
import logging
import signal
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def logged_to(path: Path) -> Iterator[None]:
    """Write the log of this process to a file while the block runs, so that no log lines disturb the screen."""
    logger = logging.getLogger("conversations")
    handler = logging.FileHandler(path)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()


@contextlib.contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM raise KeyboardInterrupt, as Ctrl-C does, while the block runs. So the block can end the processes that it started."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
