"""Keeps the worker processes of `conversations run` alive, and ends all of them together."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from conversations_ops.host.child import SHOWN, Ended, Spec
from conversations_ops.host.restarts import Restarts
from conversations_ops.host.standstills import Standstills
from conversations_ops.host.wakeups import ENDING, wakened
from conversations_ops.printable import counted

log = logging.getLogger("conversations.run")

PROGRAM = "conversations_ops.host"
"""Module that a worker process runs."""
SILENT = 10.0
"""Seconds. A worker process that sends no report for this time is unhealthy."""
STUCK = 60.0
"""Seconds. A worker that finishes no step for this time is unhealthy."""
ALONE = 30.0
"""Seconds. A worker that joined the group longer ago and has no partitions is ``idle``, because there are too few partitions for it."""
GOOD = frozenset({"running", "idle"})
STATES = ("running", "idle", "starting", "joining", "restoring", "stopping", "down", "silent", "stuck", "unreachable")
"""All states of a worker on the health page."""
LOADS = 5
"""If one worker is killed this many times before all targets are loaded, the run ends.

The loading of the worker's target probably causes these kills.
"""


@dataclasses.dataclass(frozen=True)
class RunEnd:
    """The end of a run: a word of ``Ended``, and a text for people."""

    kind: str
    text: str = ""


class Child:
    """One worker of the run. When its process ends, another process takes its place."""

    def __init__(self, spec: Spec, number: int) -> None:
        self.spec = spec
        self.slot = f"{spec.base}-{number}"
        """The preferred slot before the first start; then the slot that the process got."""
        self.service = ""
        self.settings: dict[str, list[str]] = {}
        """Settings of the worker that differ from the defaults: each name with the value and the default."""
        self.restarts = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.restart_at = 0.0
        self.started = False
        """True if the present process has its slot."""
        self.ever_joined = False
        self.ended: RunEnd | None = None
        """The end that the present process reported; None if it has not reported its end."""
        self._restarts = Restarts()
        self._reports = -1
        self._partial = b""
        self._born = 0.0
        self._heard = 0.0
        self._joined_at = 0.0
        self._status: dict[str, Any] = {}
        self._away = False
        """True if a log line says that no broker answers the present process, and no line says yet that a broker answers again."""

    @property
    def name(self) -> str:
        """Name of the worker in log lines."""
        return f"worker {self.slot} of {self.service or self.spec.target}"

    def spawn(self) -> int:
        """Start a process and return the descriptor from which its reports can be read.

        Raises:
            OSError: the machine has no room for another process, or no descriptor is left. No process was started.
        """
        self._born = self._heard = time.monotonic()
        self._reports, theirs = os.pipe()
        os.set_blocking(self._reports, False)
        # With -P, files in the current directory cannot replace Python's modules. The last two arguments are for readers of ``ps``.
        command = [sys.executable, "-P", "-m", PROGRAM, str(theirs), self.spec.target, self.slot]
        try:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                pass_fds=(theirs,),
                process_group=0,  # Ctrl-C reaches only the supervisor, which then stops the processes cleanly
            )
        except OSError:
            os.close(self._reports)
            raise
        finally:
            os.close(theirs)
        self.started, self.ended, self._status, self._partial = False, None, {}, b""
        self._joined_at, self._away = 0.0, False
        self.order(dataclasses.asdict(self.spec))
        return self._reports

    def order(self, order: dict[str, Any]) -> None:
        """Send an order to the process; do nothing if the process is gone."""
        process = self.process
        if process is not None and process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(json.dumps(order).encode() + b"\n")
                process.stdin.flush()

    def reports(self) -> Iterator[dict[str, Any]]:
        """Yield the reports that arrived since the last call."""
        while True:
            try:
                data = os.read(self._reports, 1 << 16)
            except BlockingIOError:
                return
            if not data:
                return
            *lines, self._partial = (self._partial + data).split(b"\n")
            for line in lines:
                self._heard = time.monotonic()
                yield json.loads(line)

    def note(self, status: dict[str, Any]) -> None:
        """Keep the latest status report of the worker."""
        self._status = status
        if status["joined"]:
            self.ever_joined = True
            self._joined_at = self._joined_at or time.monotonic()
        kafka = status.get("kafka")
        away = kafka is not None and kafka["unreachable"]
        if kafka is not None and away and not self._away:
            log.warning(
                "%s: no broker has answered for %.0f s (%s)", self.name, kafka["unanswered_seconds"], kafka["trying"]
            )
        elif self._away and not away:
            log.warning("%s: Kafka answers again", self.name)
        self._away = away

    def died(self) -> int | None:
        """Return None while the process runs. After its end, return its exit status once. Later calls return None."""
        process = self.process
        if process is None or process.poll() is None:
            return None
        if process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
        os.close(self._reports)
        self.process, self._status = None, {}
        return process.returncode

    def restart_later(self) -> float:
        """Plan a restart and return the seconds until the restart."""
        wait = self._restarts.after(time.monotonic() - self._born)
        self.restart_at = time.monotonic() + wait
        self.restarts += 1
        return wait

    def kill(self) -> None:
        """End the process at once. What it has reported does not count any more."""
        if self.process is not None:
            self.process.kill()
            self._status = {}

    # -- state of the worker ------------------------------------------------------------------------

    def state(self) -> str:
        """Return one word for the state of the worker. The worker is healthy if ``GOOD`` contains this word."""
        now, status = time.monotonic(), self._status
        if self.process is None:
            return "down"
        if not status:
            return "starting"
        if status["stopping"]:
            return "stopping"
        if (kafka := status.get("kafka")) is not None and kafka["unreachable"]:
            return "unreachable"
        if not status["joined"]:
            return "starting"
        if now - self._heard > SILENT:
            return "silent"
        if status["idle_seconds"] > STUCK:
            return "stuck"
        if status["partitions"]:
            return "running"
        return "restoring" if status["restoring"] else "idle" if now - self._joined_at > ALONE else "joining"

    def standstill(self, standstills: Standstills) -> str:
        """Return why the process is ended, because it stands still; "" if it does not, or has not reported yet."""
        if self.process is None or not self._status:
            return ""
        return standstills.why(self.service, time.monotonic() - self._heard, self._status)

    def works(self) -> bool:
        """Return True if the worker is healthy and restores no partition."""
        return self.state() in GOOD and not self._status["restoring"]

    def condition(self) -> dict[str, Any]:
        """Return the condition of the worker, for the health page."""
        process, status = self.process, self._status
        return {
            "slot": self.slot,
            "pid": None if process is None else process.pid,
            "state": self.state(),
            "restarts": self.restarts,
            **{name: status.get(name, default) for name, default in SHOWN.items()},
        }


class Supervisor:
    """Starts worker processes, restarts dead ones, and stops all of them cleanly.

    Args:
        specs: one spec for each target.
        workers: number of processes for each target.
        grace: seconds that a process has for stopping before it is killed. A worker with a longer ``revocation`` lengthens this time for
            all workers.
        on_started: called one time, when every process has loaded its target and has its slot.
    """

    def __init__(
        self, specs: Sequence[Spec], workers: int, grace: float, on_started: Callable[[], None] = lambda: None
    ) -> None:
        self.children = [Child(spec, number) for spec in specs for number in range(1, workers + 1)]
        self._grace = grace
        self._on_started = on_started
        self._selector = selectors.DefaultSelector()
        self._all_loaded = self._all_started = self._was_ready = False
        self._end: RunEnd | None = None
        self._unclean: list[str] = []
        """Workers that failed or were killed while they were told to stop."""
        self._kill_at = 0.0
        self._standstills = Standstills()

    def services(self) -> list[dict[str, Any]]:
        """Return the condition of every worker, by service. Any thread may call it."""
        found: dict[str, list[dict[str, Any]]] = {}
        for child in self.children:
            found.setdefault(child.service or child.spec.target, []).append(child.condition())
        return [{"service": service, "workers": workers} for service, workers in found.items()]

    def settings(self) -> dict[str, dict[str, list[str]]]:
        """Return the settings that differ from the defaults, by service and name. Each setting has its value and its default."""
        return {child.service: child.settings for child in self.children}

    def run(self) -> RunEnd:
        """Keep the workers running until a signal arrives or a worker fails for good. Then stop all workers, and wait for their end.

        A second signal kills the worker processes.
        """
        with wakened(self._selector) as wakeup:
            for child in self.children:
                self._spawn(child)
            while self._end is None or any(child.process for child in self.children):
                self._wait()
                self._heed(wakeup)
                for child in self.children:
                    self._look_after(child)
                self._replace()
            self._tell_the_end(self._end)
            return self._end

    def _tell_the_end(self, end: RunEnd) -> None:
        if end.kind != Ended.STOPPED:
            return  # the caller tells what failed
        if self._unclean:
            log.warning("stopped, but not cleanly: %s", ", ".join(self._unclean))
        else:
            log.info("stopped: every worker process has ended")

    def _wait(self) -> None:
        times = [child.restart_at for child in self.children if child.process is None and self._end is None]
        if self._kill_at:
            times.append(self._kill_at)
        self._selector.select(max(0.0, min([*times, self._standstills.next_look]) - time.monotonic()))

    def _heed(self, wakeup: int) -> None:
        """Act on the signals that arrived. Kill the processes that did not stop in time."""
        with contextlib.suppress(BlockingIOError):
            for number in os.read(wakeup, 1024):
                if number in ENDING:
                    self._asked_to_stop()
        if self._kill_at and time.monotonic() >= self._kill_at:
            late = ", ".join(child.name for child in self.children if child.process is not None)
            self._kill(f"killed because they did not stop in {self._grace:g} s: {late}")

    def _asked_to_stop(self) -> None:
        if self._end is None:
            log.info("stopping; a second signal kills the worker processes")
            self._stop(RunEnd(Ended.STOPPED))
        else:
            self._kill("killed because a second signal arrived")

    def _stop(self, end: RunEnd) -> None:
        if self._end is not None:
            return
        self._end = end
        self._kill_at = time.monotonic() + self._grace
        for child in self.children:
            child.order({"stop": True})

    def _kill(self, why: str) -> None:
        self._kill_at = 0.0
        alive = [child for child in self.children if child.process is not None]
        for child in alive:
            child.kill()
        if alive and self._end == RunEnd(Ended.STOPPED):
            self._end = RunEnd(Ended.FAILED, why)

    # -- one child ----------------------------------------------------------------------------------

    def _replace(self) -> None:
        """End the processes that stand still. Others take their places, and find the message with which a process stood still."""
        if self._standstills.look() and self._end is None:
            for child in self.children:
                if why := child.standstill(self._standstills):
                    log.error("%s stands still (%s), ending its process", child.name, why)
                    child.kill()

    def _spawn(self, child: Child) -> None:
        try:
            reports = child.spawn()
        except OSError as error:
            wait = child.restart_later()
            log.warning("%s cannot be started (%s), trying it again in %.1f s", child.name, error, wait)
        else:
            self._selector.register(reports, selectors.EVENT_READ)

    def _look_after(self, child: Child) -> None:
        if child.process is None:
            if self._end is None and time.monotonic() >= child.restart_at:
                self._spawn(child)
            return
        gone = child.process.poll() is not None  # check this before reading, so that no last report is missed
        for report in child.reports():
            self._take(child, report)
        if gone:
            self._selector.unregister(child._reports)  # noqa: SLF001 - same module
            code = child.died()
            if code is not None and self._end is None:
                self._mourn(child, code)
            elif code:
                self._unclean.append(child.name)

    def _take(self, child: Child, report: dict[str, Any]) -> None:
        event = report.pop("event")
        if event == "status":
            child.note(report)
            self._tell_ready()
        elif event == "loaded":
            child.service, child.settings = report["service"], report["settings"]
            self._grace = max(self._grace, report["grace"])
            self._standstills.allow(child.service, report["patience"])
            self._loaded(child)
        elif event == "started":
            child.slot, child.started = report["slot"], True
            if not self._all_started and all(other.started for other in self.children):
                self._all_started = True
                self._on_started()
        else:
            child.ended = RunEnd(report["kind"], report["text"])

    def _tell_ready(self) -> None:
        """Log one line when all workers of the run work for the first time."""
        if not self._was_ready and self._end is None and all(child.works() for child in self.children):
            self._was_ready = True
            services = ", ".join(dict.fromkeys(child.service for child in self.children))
            workers = counted(len(self.children), "worker")
            log.info("ready: %s (%s)", services, workers)

    def _loaded(self, child: Child) -> None:
        if self._all_loaded:
            child.order({"start": child.slot})
            return
        targets = dict.fromkeys(other.spec.target for other in self.children if other.service == child.service)
        if len(targets) > 1:
            self._stop(
                RunEnd(Ended.DECLARATION, f"{' and '.join(targets)} are both service {child.service!r}: give only one")
            )
        elif (other := self._other_periods(child)) is not None:
            text = f"{child.spec.target} and {other.spec.target} have different periods, but a namespace has one set of periods: make them equal"
            self._stop(RunEnd(Ended.DECLARATION, text))
        elif all(other.service for other in self.children):
            self._all_loaded = True  # only now may the processes connect to Kafka
            for other in self.children:
                other.order({"start": other.slot})

    def _other_periods(self, child: Child) -> Child | None:
        """Return a worker that has loaded its target and has other periods than ``child``. Return None if there is no such worker."""
        mine = _periods(child)
        return next((other for other in self.children if other.service and _periods(other) != mine), None)

    def _mourn(self, child: Child, code: int) -> None:
        """End the run or restart the worker, after its process has ended."""
        ended = child.ended
        hopeless = ended is not None and ended.kind == Ended.DECLARATION
        never = ended is not None and ended.kind in {Ended.UNREACHABLE, Ended.REFUSED}
        if ended is not None and (hopeless or (never and not any(other.ever_joined for other in self.children))):
            self._stop(ended)
        elif not self._all_loaded and (ended is not None or code >= 0 or child.restarts + 1 >= LOADS):
            why = ended.text if ended is not None else _how(code)
            self._stop(RunEnd(Ended.FAILED, f"{child.name} ended before it was ready: {why}"))
        else:
            wait = child.restart_later()
            why = ended.text or ended.kind if ended is not None else _how(code)
            log.warning("%s ended (%s), starting it again in %.1f s", child.name, why, wait)


def _periods(child: Child) -> dict[str, list[str]]:
    return {name: pair for name, pair in child.settings.items() if name.startswith("periods.")}


def _how(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
