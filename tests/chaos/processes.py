"""Worker processes of their own, as `conversations run` starts them, but restarted at once however often they die."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from threading import Event
from time import monotonic
from typing import Any

from conversations.config import Kafka
from conversations_ops.host.child import Spec
from tests.chaos.services import LEDGER, TELLER

TARGETS = {TELLER: "tests.chaos.services:teller_{}", LEDGER: "tests.chaos.services:ledger_{}"}
PAUSE = 0.5
"""Seconds until a process that ended by itself is started again."""
GRACE = 30.0
"""Seconds the processes may take to stop in order."""


class Process:
    """One worker process of one slot, and those that take its place."""

    def __init__(self, service: str, target: str, spec: Spec, slot: str, log: Path) -> None:
        self.service, self.spec, self.slot, self.log = service, spec, slot, log
        self._target = target
        self.release = 1
        self.clock = 0.0
        """Seconds by which the clock of its processes is off, from their start on."""
        self.frozen = self.stopping = self.killed = False
        self.held = False
        """Nobody takes its place while it is down."""
        self.status: dict[str, Any] = {}
        self.end: dict[str, str] = {}
        """What the present process said about its end."""
        self.start_at = 0.0
        self._popen: subprocess.Popen[bytes] | None = None
        self._reports = -1
        self._partial = b""

    @property
    def name(self) -> str:
        """Service and slot."""
        return f"{self.service}/{self.slot}"

    @property
    def copy(self) -> Path:
        """Directory of its local copies of state, one in it for each partition."""
        return Path(self.spec.state or "") / self.service / self.slot

    @property
    def running(self) -> bool:
        """Whether there is a process that may be harmed."""
        return self._popen is not None

    @property
    def pid(self) -> int | None:
        """Of the present process."""
        return None if self._popen is None else self._popen.pid

    def start(self) -> None:
        """Start a process of the present release."""
        self._reports, theirs = os.pipe()
        os.set_blocking(self._reports, False)
        clock = f"from tests.chaos.clock import shift; shift({self.clock!r}); " if self.clock else ""
        program = f"{clock}import sys; from conversations_ops.host.child import main; sys.exit(main({theirs}))"
        with self.log.open("ab") as log:
            self._popen = subprocess.Popen(
                [sys.executable, "-P", "-c", program], stdin=subprocess.PIPE, stdout=log, stderr=log,
                pass_fds=(theirs,), process_group=0,
            )  # fmt: skip
        os.close(theirs)
        self.frozen = self.stopping = self.killed = False
        self.status, self.end, self._partial = {}, {}, b""
        spec = dataclasses.replace(self.spec, target=self._target.format(self.release))
        self.order(dataclasses.asdict(spec))

    def order(self, order: dict[str, Any]) -> None:
        """Tell the process something; one that is gone hears nothing."""
        if self._popen is not None and self._popen.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._popen.stdin.write(json.dumps(order).encode() + b"\n")
                self._popen.stdin.flush()

    def stop(self) -> None:
        """Ask it to stop in order."""
        self.stopping = True
        self.order({"stop": True})

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        if self._popen is not None:
            self._popen.send_signal(number)

    def look(self) -> int | None:
        """Take its reports; return how it ended, None while it runs."""
        process = self._popen
        if process is None:
            return None
        code = process.poll()  # before the last reports are read
        for report in self._read():
            event = report.pop("event")
            if event == "loaded":
                self.order({"start": self.slot})
            elif event == "status":
                self.status = report
            elif event == "ended":
                self.end = report
        if code is None:
            return None
        os.close(self._reports)
        if process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
        self._popen = None
        return code

    def _read(self) -> Iterator[dict[str, Any]]:
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._reports, 1 << 16):
                *lines, self._partial = (self._partial + data).split(b"\n")
                yield from map(json.loads, lines)


class Fleet:
    """All worker processes of both services.

    Args:
        kafka: where.
        directory: for their log, their state and their names.
        workers: processes per service.
        targets: what each service's processes run, by release.
    """

    def __init__(
        self, kafka: Kafka, directory: Path, workers: int, random: Random, targets: Mapping[str, str] = TARGETS
    ) -> None:
        self.log = directory / "workers.log"
        self._random = random
        self.counts: Counter[str] = Counter()
        """What was done to processes, and how they ended by themselves."""
        self.processes = [
            Process(service, target, _spec(kafka, directory), f"chaos-{number}", self.log)
            for number in range(1, workers + 1)
            for service, target in targets.items()
        ]
        self.ends: Counter[str] = Counter()
        """What processes that ended by themselves said about it."""
        self._closing = self._held = False

    def tend(self) -> None:
        """Start again what has ended."""
        if self._held:
            return
        for process in self.processes:
            code = process.look()
            if code is not None:
                self._ended(process, code)
            if not process.running and not process.held and not self._closing and monotonic() >= process.start_at:
                process.start()

    def _ended(self, process: Process, code: int) -> None:
        process.start_at = 0.0
        if process.killed or self._closing or (process.stopping and code == 0):
            return
        self.counts["ended by themselves"] += 1
        self.ends[process.end.get("text") or f"exit code {code}"] += 1
        process.start_at = monotonic() + PAUSE
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"{process.service} {process.slot} ended by itself, code {code}: {process.end}\n")

    def kill(self) -> None:
        """SIGKILL a process that runs, chosen at random."""
        able = [process for process in self.processes if process.running and not process.frozen]
        if able and not self._held:
            self.kill_one(self._random.choice(able))

    def kill_one(self, chosen: Process) -> None:
        """SIGKILL a process, if it runs."""
        if chosen.running and not chosen.killed:
            chosen.killed = True
            chosen.signal(signal.SIGKILL)
            self.counts["killed"] += 1

    def freeze(self, service: str) -> Process | None:
        """SIGSTOP a process of a service that owns partitions, chosen at random; None when there is none just now."""
        able = [
            process
            for process in self.processes
            if process.service == service and process.status.get("partitions") and process.running
            and not (process.killed or process.stopping or process.frozen)
        ]  # fmt: skip
        if not able:
            return None
        chosen = self._random.choice(able)
        self.freeze_one(chosen)
        return chosen

    def freeze_one(self, process: Process) -> None:
        """SIGSTOP a process, if it runs."""
        if process.running:
            process.frozen = True
            process.signal(signal.SIGSTOP)
            self.counts["frozen"] += 1

    def thaw(self, process: Process) -> None:
        """SIGCONT it."""
        process.signal(signal.SIGCONT)
        process.frozen = False

    def hold_all(self) -> None:
        """SIGSTOP every process, and start none, until ``release_all``."""
        self._held = True
        for process in self.processes:
            process.signal(signal.SIGSTOP)

    def release_all(self) -> None:
        """SIGCONT every process that ``hold_all`` stopped; harmless when done already."""
        if self._held:
            self._held = False
            for process in self.processes:
                process.signal(signal.SIGCONT)

    def replace(self, number: int) -> None:
        """Stop the workers of a number in order; they come back with the second release."""
        for process in self.processes:
            if process.slot == f"chaos-{number}" and process.release == 1:
                process.release = 2
                process.stop()
                self.counts["replaced in order"] += 1

    def releases(self) -> Counter[int]:
        """How many processes run each release."""
        return Counter(process.release for process in self.processes)

    def stop(self) -> int:
        """Stop all in order; return how many had to be killed."""
        self._closing = True
        self.release_all()
        for process in self.processes:
            if process.frozen:
                self.thaw(process)
            process.stop()
        deadline = monotonic() + GRACE
        while any(process.running for process in self.processes) and monotonic() < deadline:
            self._look()
        return self.kill_all()

    def kill_all(self) -> int:
        """SIGKILL what runs, and bury it; return how many did."""
        self._closing = True
        late = [process for process in self.processes if process.running]
        for process in late:
            process.signal(signal.SIGKILL)
        while any(process.running for process in self.processes):
            self._look()
        return len(late)

    def _look(self) -> None:
        Event().wait(0.02)
        for process in self.processes:
            process.look()

    def last_words(self, lines: int = 15) -> str:
        """End of the log."""
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])


def _spec(kafka: Kafka, directory: Path) -> Spec:
    return Spec(
        target="", bootstrap=kafka.bootstrap, namespace=kafka.namespace, settings={},
        state=str(directory / "state"), slots=str(directory / "slots"),
        base="chaos", log_level="warning", log_json=False,
    )  # fmt: skip
