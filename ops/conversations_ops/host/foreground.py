"""A program that shows one run on the screen: its log goes to a file, and SIGTERM ends it as Ctrl-C does."""

from __future__ import annotations

import contextlib
import logging
import signal
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def logged_to(path: Path) -> Iterator[None]:
    """Write what this process logs to a file; its retries are no news on the screen."""
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
    """Let SIGTERM end the run as Ctrl-C does, its processes included."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
