"""The demo's services as anybody runs them: `conversations run` in a process of its own, watched by its health page."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conversations.config import Kafka
from conversations_ops.broker.process import ServerProcess

TARGETS = ("conversations_ops.demo.aircraft_log:aircraft_log", "conversations_ops.demo.operations:operations")
MENDED = ("conversations_ops.demo.mended:mended", "conversations_ops.demo.operations:operations")
"""The next release of aircraft-log."""
START_TIMEOUT = 60.0
POLL = 0.05
LAST_LINES = 15


class DemoFailed(Exception):
    """The demo could not be carried out; says why, with the last words of the process that failed."""


@dataclass(frozen=True)
class Worker:
    """One worker process, as the health page tells of it."""

    service: str
    slot: str
    pid: int | None
    state: str
    restarts: int
    counts: dict[str, int]


class Workers:
    """A run of both services, in one release after the other; ends with this process, however that ends.

    Args:
        kafka: where.
        directory: for the log and the local copies of state.
        per_service: worker processes of each service.
        keep: the directory is to outlive a process that dies without a word.
    """

    def __init__(self, kafka: Kafka, directory: Path, per_service: int, *, keep: bool) -> None:
        self.restarts = 0
        """Processes that were started again, of releases that are replaced."""
        self.duplicates = 0
        """Duplicates that the processes of those have counted."""
        self._directory, self._scratch = directory, None if keep else directory
        self._options = [
            "--workers", str(per_service), "--bootstrap", kafka.bootstrap, "--namespace", kafka.namespace,
            "--state-dir", str(directory / "state"), "--slot", f"demo-{os.getpid()}", "--health", "0", "--json",
            "--log-level", "warning",
        ]  # fmt: skip
        self._start(TARGETS, "workers.log")

    def _start(self, targets: Sequence[str], log: str) -> None:
        self.log = self._directory / log
        self._page: tuple[str, str] | None = None
        command = [sys.executable, "-P", "-m", "conversations_ops.cli.app", "run", *targets, *self._options]
        self._process = ServerProcess(command, self.log, self._scratch)

    def replace(self) -> None:
        """Stop in order, and go on with the next release.

        Raises:
            DemoFailed: its workers do not come to work.
        """
        self._count()
        self._process.stop()
        self._start(MENDED, "workers-mended.log")
        self.await_health()

    def _count(self) -> None:
        found = self.look()
        self.restarts += sum(worker.restarts for worker in found)
        self.duplicates += sum(worker.counts.get("duplicates", 0) for worker in found)

    def await_health(self) -> None:
        """Wait until every worker has its partitions.

        Raises:
            DemoFailed: they do not get that far.
        """
        deadline = time.monotonic() + START_TIMEOUT
        while not (self._found() and all(worker.state == "running" for worker in self.look())):
            self.check()
            if time.monotonic() > deadline:
                raise DemoFailed(f"The workers are not at work after {START_TIMEOUT:g} s.{self.last_words()}")
            time.sleep(POLL)

    def look(self) -> list[Worker]:
        """Say how every worker is.

        Raises:
            DemoFailed: nobody answers.
        """
        self.check()
        if self._page is None:
            return []
        address, path = self._page
        connection = http.client.HTTPConnection(address, timeout=10)
        try:
            connection.request("GET", path)
            services = json.loads(connection.getresponse().read())["services"]
        except (OSError, ValueError, http.client.HTTPException) as error:
            self.check()
            raise DemoFailed(f"The health page of the workers does not answer: {error}.{self.last_words()}") from error
        finally:
            connection.close()
        return [_worker(found["service"], worker) for found in services for worker in found["workers"]]

    def kill_one(self, service: str) -> Worker | None:
        """SIGKILL a worker of a service that is at work; None when none is just now."""
        for worker in self.look():
            if worker.service == service and worker.state == "running" and worker.pid is not None:
                os.kill(worker.pid, signal.SIGKILL)
                return worker
        return None

    def check(self) -> None:
        """Check that the run goes on.

        Raises:
            DemoFailed: it has ended.
        """
        if self._process.exit_code is not None:
            raise DemoFailed(f"The workers ended by themselves, code {self._process.exit_code}.{self.last_words()}")

    def last_words(self) -> str:
        """End of the log, to be put behind a message."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
        return "\nTheir last words:\n" + "\n".join(f"  {line}" for line in lines) if lines else ""

    def stop(self) -> None:
        """End in order: partitions are given back."""
        if self._process.exit_code is None and self._page is not None:
            with contextlib.suppress(DemoFailed):
                self._count()
        self._process.stop()

    def kill(self) -> None:
        """End at once; the worker processes notice and go too."""
        self._process.kill()

    def _found(self) -> bool:
        """Look for the line in which the run tells where its health page is."""
        for line in self.log.read_text(encoding="utf-8", errors="replace").splitlines():
            if self._page is None and line.startswith("{"):
                address = json.loads(line).get("health", "")
                host, _, path = address.removeprefix("http://").partition("/")
                self._page = (host, f"/{path}")
        return self._page is not None


def _worker(service: str, found: dict[str, Any]) -> Worker:
    return Worker(service, found["slot"], found["pid"], found["state"], found["restarts"], found["counts"])
