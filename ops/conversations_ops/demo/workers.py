"""Runs the services of the demo with `conversations run` in its own process, as users do. Reads the health page of this run."""

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
"""Targets of the next release: aircraft-log is replaced."""
START_TIMEOUT = 60.0
POLL = 0.05
LAST_LINES = 15


class DemoFailed(Exception):
    """The demo could not be carried out. The message says why, with the last log lines of the process that failed."""


@dataclass(frozen=True)
class Worker:
    """One worker process, as the health page shows it."""

    service: str
    slot: str
    pid: int | None
    state: str
    restarts: int
    counts: dict[str, int]


class Workers:
    """A run of both services: first one release, then the next. The run ends when this process ends, for whatever reason.

    Args:
        kafka: the cluster.
        directory: directory for the log and the local copies.
        per_service: number of worker processes of each service.
        keep: if False, the directory is removed when this process dies.
    """

    def __init__(self, kafka: Kafka, directory: Path, per_service: int, *, keep: bool) -> None:
        self.restarts = 0
        """Number of restarted processes in the releases that were stopped."""
        self.duplicates = 0
        """Number of duplicates, from the counts of the processes of the stopped releases."""
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
        """Stop the workers cleanly, and start the workers of the next release.

        Raises:
            DemoFailed: a new worker did not get its partitions in time.
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
            DemoFailed: a worker did not get its partitions in time.
        """
        deadline = time.monotonic() + START_TIMEOUT
        while not (self._found() and all(worker.state == "running" for worker in self.look())):
            self.check()
            if time.monotonic() > deadline:
                raise DemoFailed(f"Not every worker has its partitions after {START_TIMEOUT:g} s.{self.last_words()}")
            time.sleep(POLL)

    def look(self) -> list[Worker]:
        """Return the condition of every worker.

        Raises:
            DemoFailed: the run has ended, or its health page does not answer.
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
        """Kill a running worker of a service with SIGKILL, and return this worker. Return None if no worker of the service runs now."""
        for worker in self.look():
            if worker.service == service and worker.state == "running" and worker.pid is not None:
                os.kill(worker.pid, signal.SIGKILL)
                return worker
        return None

    def check(self) -> None:
        """Check that the run has not ended.

        Raises:
            DemoFailed: the run has ended.
        """
        if self._process.exit_code is not None:
            raise DemoFailed(
                f"The workers ended by themselves with exit code {self._process.exit_code}.{self.last_words()}"
            )

    def last_words(self) -> str:
        """Return the last lines of the log, as an addition to an error message."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
        return "\nThe last lines of their log:\n" + "\n".join(f"  {line}" for line in lines) if lines else ""

    def stop(self) -> None:
        """Stop the workers cleanly, so that they give their partitions back."""
        if self._process.exit_code is None and self._page is not None:
            with contextlib.suppress(DemoFailed):
                self._count()
        self._process.stop()

    def kill(self) -> None:
        """Kill the run at once. Its worker processes notice that the run has ended, and end too."""
        self._process.kill()

    def _found(self) -> bool:
        """Search the log for the address of the health page. Return True if the address is known."""
        for line in self.log.read_text(encoding="utf-8", errors="replace").splitlines():
            if self._page is None and line.startswith("{"):
                address = json.loads(line).get("health", "")
                host, _, path = address.removeprefix("http://").partition("/")
                self._page = (host, f"/{path}")
        return self._page is not None


def _worker(service: str, found: dict[str, Any]) -> Worker:
    return Worker(service, found["slot"], found["pid"], found["state"], found["restarts"], found["counts"])
