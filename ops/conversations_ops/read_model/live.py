"""Keeps the file of the read model up to date in a thread, for programs that show it all the time."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from threading import Condition, Event, Thread
from typing import NamedTuple, Self

from conversations.config import Kafka
from conversations.errors import DeclarationError, LogError
from conversations_ops.read_model.file import File, path_of
from conversations_ops.read_model.projector import current

log = logging.getLogger("conversations.ops")
EVERY = 1.0
"""Seconds between two looks. The thread also rests as long as its last look took."""


class Progress(NamedTuple):
    """How far the file is."""

    read: int = 0
    """Number of records that the look under way has read."""
    total: int = 0
    """Number of records that it has to read."""
    looked_at: float = 0.0
    """Time of the last complete look, in seconds since 1970; 0 if there was none."""
    trouble: str = ""
    """Why the last look failed; empty if it did not."""


class Live:
    """A file of the read model that a thread keeps up to date. Use it in a ``with`` block."""

    def __init__(self, kafka: Kafka, directory: Path | None = None, every: float = EVERY) -> None:
        self.kafka = kafka
        self._directory, self._every = directory, every
        self._changed = Condition()
        self._progress = Progress()
        self._looks, self._looking = 0, False
        self._hurry, self._ends = Event(), Event()
        self._thread = Thread(target=self._follow, name="read model", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ends.set()
        self._hurry.set()
        self._thread.join()

    @property
    def progress(self) -> Progress:
        """How far the file is."""
        return self._progress

    def file(self) -> File:
        """Open the file for one question. Close it after that.

        Raises:
            NoDirectory, ReadModelFailed: the file cannot be opened.
        """
        return File(path_of(self.kafka, self._directory))

    def look_now(self, patience: float) -> bool:
        """Look at once, and wait up to ``patience`` seconds until a look that began after this call is complete. Return False if none is."""
        with self._changed:
            wanted = self._looks + 1 + self._looking  # the look under way began before this call
            self._hurry.set()
            return self._changed.wait_for(lambda: self._looks >= wanted, patience)

    def _follow(self) -> None:
        while not self._ends.is_set():
            began = time.monotonic()
            self._look()
            if self._hurry.wait(max(self._every, time.monotonic() - began)):
                self._hurry.clear()

    def _look(self) -> None:
        with self._changed:
            self._looking = True
        trouble = ""
        try:
            with current(self.kafka, self._told, self._directory):
                pass
        except (LogError, DeclarationError) as error:
            trouble = str(error)
            log.warning("the read model is not up to date: %s", error)
        except Exception as error:
            trouble = f"{type(error).__name__}: {error}"
            log.exception("the read model is not up to date")
        with self._changed:
            looked_at = self._progress.looked_at if trouble else time.time()
            self._progress = Progress(0, 0, looked_at, trouble)
            self._looks, self._looking = self._looks + 1, False
            self._changed.notify_all()

    def _told(self, done: int, total: int) -> None:
        self._progress = self._progress._replace(read=done, total=total)
