"""Spark beside a run: a process with a stream and the archive, started again whenever it fails."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

from conversations.config import Kafka

PAUSE = 2.0
"""Seconds until Spark is started again."""
SHORT_LIVED = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""Programs that live for minutes gain nothing from Java's second compiler."""


class Beside:
    """Keeps Spark at work.

    Args:
        directory: what it writes goes to ``archive`` and ``stream`` in it.
        enabled: else nothing is started.
    """

    def __init__(self, kafka: Kafka, directory: Path, *, enabled: bool) -> None:
        self.archive, self.stream = directory / "archive", directory / "stream"
        self._command = [
            sys.executable, "-m", "tests.chaos.cluster.readers", kafka.bootstrap, kafka.namespace, str(directory),
        ]  # fmt: skip
        self._log, self._enabled = directory / "spark.log", enabled
        self._process: subprocess.Popen[bytes] | None = None
        self._start_at = 0.0
        self.counts: Counter[str] = Counter()

    @property
    def outputs(self) -> dict[str, Path]:
        """Where it wrote, by name."""
        return {"archive": self.archive, "stream": self.stream} if self._enabled else {}

    @property
    def at_work(self) -> bool:
        """Whether the stream has begun, if there is to be one."""
        return not self._enabled or (self.stream.parent / "stream-checkpoint").exists()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Let it work while the block runs."""
        self.tend()
        try:
            yield
        finally:
            if self._process is not None:
                self._process.kill()
                self._process.wait()

    def tend(self) -> None:
        """Start it, or again."""
        if self._process is not None and self._process.poll() is not None:
            self.counts["Spark failed"] += 1
            self._process, self._start_at = None, monotonic() + PAUSE
        if self._enabled and self._process is None and monotonic() >= self._start_at:
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    self._command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=os.environ | SHORT_LIVED
                )

    def finish(self, patience: float) -> Iterator[str]:
        """Let it read all there is, and end; tell if it does not within ``patience`` seconds, starting anew included."""
        deadline = monotonic() + patience
        while self._enabled:
            self.tend()
            process = self._process
            if process is None or process.stdin is None:
                continue
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            try:
                code = process.wait(max(1.0, deadline - monotonic()))
            except subprocess.TimeoutExpired:
                yield f"stalled: Spark has not read everything within {patience:g} s"
                return
            if code == 0:
                self._process = None
                return
