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
from conversations_ops.demo.clusters import Clusters
from conversations_ops.demo.failing import DemoFailed, last_words

OPERATIONS = "conversations_ops.demo.operations:operations"
AIRCRAFT_LOG = "conversations_ops.demo.aircraft_log:aircraft_log"
MENDED = "conversations_ops.demo.mended:mended"
"""The target that takes the place of aircraft-log in the next release."""
START_TIMEOUT = 60.0
POLL = 0.05


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
    """A run of both services on each cluster: first one release, then the next. The runs end when this process ends, for whatever reason.

    Args:
        clusters: the cluster of each service. Services on one cluster share a run.
        directory: directory for the logs and the local copies.
        per_service: number of worker processes of each service.
        keep: if False, the directory is removed when this process dies.
    """

    def __init__(self, clusters: Clusters, directory: Path, per_service: int, *, keep: bool) -> None:
        self.restarts = 0
        """Number of restarted processes in the releases that were stopped."""
        self.duplicates = 0
        """Number of duplicates, from the counts of the processes of the stopped releases."""
        targets: dict[str, tuple[Kafka, Sequence[str]]]
        if clusters.several:
            targets = {
                "-home": (clusters.operations, [OPERATIONS]),
                "-hangar": (clusters.aircraft_log, [AIRCRAFT_LOG]),
            }
        else:
            targets = {"": (clusters.operations, [AIRCRAFT_LOG, OPERATIONS])}
        self._runs = [
            _Run(kafka, own, directory, name, per_service, keep=keep) for name, (kafka, own) in targets.items()
        ]

    def replace(self) -> None:
        """Stop the workers of aircraft-log cleanly, and start those of its next release. Workers in the same run are replaced, too.

        Raises:
            DemoFailed: a new worker did not get its partitions in time.
        """
        for run in self._runs:
            if AIRCRAFT_LOG in run.targets:
                self._count(run)
                run.replace()
        self.await_health()

    def _count(self, run: _Run) -> None:
        found = run.look()
        self.restarts += sum(worker.restarts for worker in found)
        self.duplicates += sum(worker.counts.get("duplicates", 0) for worker in found)

    def await_health(self) -> None:
        """Wait until every worker has its partitions.

        Raises:
            DemoFailed: a worker did not get its partitions in time.
        """
        deadline = time.monotonic() + START_TIMEOUT
        while not all(run.is_healthy() for run in self._runs):
            if time.monotonic() > deadline:
                raise DemoFailed(f"Not every worker has its partitions after {START_TIMEOUT:g} s.{self.last_words()}")
            time.sleep(POLL)

    def look(self) -> list[Worker]:
        """Return the condition of every worker.

        Raises:
            DemoFailed: a run has ended, or its health page does not answer.
        """
        return [worker for run in self._runs for worker in run.look()]

    def kill_one(self, service: str) -> Worker | None:
        """Kill a running worker of a service with SIGKILL, and return this worker. Return None if no worker of the service runs now."""
        for worker in self.look():
            if worker.service == service and worker.state == "running" and worker.pid is not None:
                os.kill(worker.pid, signal.SIGKILL)
                return worker
        return None

    def check(self) -> None:
        """Check that no run has ended.

        Raises:
            DemoFailed: a run has ended.
        """
        for run in self._runs:
            run.check()

    def last_words(self) -> str:
        """Return the last lines of the logs, as an addition to an error message."""
        return "".join(last_words(run.log) for run in self._runs)

    @property
    def logs(self) -> list[Path]:
        """The logs of all releases."""
        return [log for run in self._runs for log in run.logs]

    def stop(self) -> None:
        """Stop the workers cleanly, so that they give their partitions back."""
        for run in self._runs:
            if run.is_known:
                with contextlib.suppress(DemoFailed):
                    self._count(run)
            run.stop()

    def kill(self) -> None:
        """Kill the runs at once. Their worker processes notice that the run has ended, and end too."""
        for run in self._runs:
            run.kill()


class _Run:
    """One process of ``conversations run``, and its health page. ``name`` distinguishes the runs of one demo."""

    def __init__(
        self, kafka: Kafka, targets: Sequence[str], directory: Path, name: str, per_service: int, *, keep: bool
    ) -> None:
        self.logs: list[Path] = []
        self._directory, self._name, self._scratch = directory, name, None if keep else directory
        self._options = [
            "--workers", str(per_service), "--bootstrap", kafka.bootstrap, "--namespace", kafka.namespace,
            "--state-dir", str(directory / f"state{name}"), "--slot", f"demo{name}-{os.getpid()}", "--health", "0", "--json",
            "--log-level", "warning",
        ]  # fmt: skip
        self._start(targets, "workers")

    def _start(self, targets: Sequence[str], log: str) -> None:
        self.targets = targets
        self.logs.append(self._directory / f"{log}{self._name}.log")
        self._page: tuple[str, str] | None = None
        command = [sys.executable, "-P", "-m", "conversations_ops.cli.app", "run", *targets, *self._options]
        self._process = ServerProcess(command, self.log, self._scratch)

    @property
    def log(self) -> Path:
        """The log of the release that runs."""
        return self.logs[-1]

    @property
    def is_known(self) -> bool:
        """True if the run has not ended, and the address of its health page is known."""
        return self._process.exit_code is None and self._page is not None

    def is_healthy(self) -> bool:
        """Return True if every worker has its partitions.

        Raises:
            DemoFailed: the run has ended.
        """
        self.check()
        return self._found() and all(worker.state == "running" for worker in self.look())

    def replace(self) -> None:
        """Stop this release, and start the next one."""
        self._process.stop()
        self._start([MENDED if it == AIRCRAFT_LOG else it for it in self.targets], "workers-mended")

    def look(self) -> list[Worker]:
        """Return the condition of every worker; nothing before the address of the health page is known.

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
            raise DemoFailed(
                f"The health page of the workers does not answer: {error}.{last_words(self.log)}"
            ) from error
        finally:
            connection.close()
        return [_worker(found["service"], worker) for found in services for worker in found["workers"]]

    def check(self) -> None:
        """Check that the run has not ended.

        Raises:
            DemoFailed: the run has ended.
        """
        code = self._process.exit_code
        if code is not None:
            raise DemoFailed(f"The workers ended by themselves with exit code {code}.{last_words(self.log)}")

    def stop(self) -> None:
        """Stop the run cleanly."""
        self._process.stop()

    def kill(self) -> None:
        """Kill the run at once."""
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
