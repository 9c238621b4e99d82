"""Redrives that the web console carries out, each in a thread. Terminals see, stop and continue them as they do with their own."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Lock, Thread

from conversations.errors import DeclarationError, LogError
from conversations.protocol.command import Action
from conversations.protocol.parked import Decision
from conversations_ops.operate.redrive.drive import Drive
from conversations_ops.operate.redrive.journal import Journal
from conversations_ops.operate.redrive.plan import Care, Plan, from_json, is_name, plan_of, to_json
from conversations_ops.operate.redrive.selection import Selector
from conversations_ops.read_model.live import Live
from conversations_ops.read_model.parked import parked_messages

log = logging.getLogger("conversations.ops")
MANY = 4
"""Maximum number of redrives that run in this process at the same time."""
LOOK = 30.0
"""Seconds that the read model may take to be up to date before a plan is made."""
GRACE = 8.0
"""Seconds that redrives may take to end when the console ends."""
LARGEST = 200_000_000
"""Maximum number of bytes of a plan file that is read."""


class Redrives:
    """The plans in a directory, and the threads that carry them out."""

    def __init__(self, live: Live, directory: Path) -> None:
        self._live, self._kafka, self._directory = live, live.kafka, directory
        self._running: dict[str, tuple[Thread, Drive]] = {}
        self._lock = Lock()

    def make(self, selector: Selector, care: Care, by: str) -> Plan:
        """Write a plan with the held letters that match now.

        Raises:
            LogError: a topic cannot be read.
            DeclarationError: the plan cannot be written.
        """
        if not self._live.look_now(LOOK):
            raise LogError(
                f"the letters could not be read in {LOOK:g} s: {self._live.progress.trouble or 'the topics are long'}"
            )
        with self._live.file() as file:
            found, now = parked_messages(self._kafka, file, selector.service), time.time_ns() // 1_000
        plan = plan_of(found, selector, care, self._kafka.namespace, by=by, now=now, random=os.urandom(4))
        if plan.letters:
            try:
                with self._file(plan.redrive).open("x", encoding="utf-8") as file:
                    file.write(to_json(plan))
            except OSError as error:
                raise DeclarationError(f"{self._file(plan.redrive)}: {error.strerror}") from error
        return plan

    def plan(self, redrive: str) -> Plan | None:
        """Return a plan of this directory; None if it has no such plan.

        Raises:
            DeclarationError: the plan cannot be read.
        """
        if not is_name(redrive):
            return None
        try:
            with self._file(redrive).open(encoding="utf-8") as file:
                return from_json(file.read(LARGEST))
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise DeclarationError(f"{self._file(redrive)} cannot be read: {error}") from error

    def plans(self) -> Sequence[str]:
        """Return the names of the plans of this directory, the newest first."""
        found = [it for it in self._directory.glob("rd-*.json") if is_name(it.stem)]
        return [it.stem for it in sorted(found, key=lambda it: it.stat().st_mtime, reverse=True)]

    def was_started(self, redrive: str) -> bool:
        """Return True if a plan was started before."""
        return Journal(self._file(redrive), redrive).exists

    def runs(self, redrive: str) -> bool:
        """Return True if this process carries the plan out now."""
        with self._lock:
            it = self._running.get(redrive)
        return it is not None and it[0].is_alive()

    def start(self, plan: Plan, by: str, reason: str) -> None:
        """Carry a plan out in a thread, or continue it.

        Raises:
            DeclarationError: it runs already, here or in another process, too many run, nothing is left to do, or its files fail.
        """
        journal = Journal(self._file(plan.redrive), plan.redrive)
        with self._lock:
            self._running = {name: it for name, it in self._running.items() if it[0].is_alive()}
            if plan.redrive in self._running:
                raise DeclarationError(f"{plan.redrive} runs already")
            if len(self._running) >= MANY:
                raise DeclarationError(f"{MANY} redrives run in this console already: wait until one of them has ended")
            with ExitStack() as stack:
                stack.enter_context(journal.alone())
                if journal.is_over(plan.letters):
                    raise DeclarationError(f"{plan.redrive} is done, nothing is left to do")
                drive = Drive(self._kafka, plan, journal, Decision(Action.RETRY, by, reason), lambda _counts: None)
                thread = Thread(target=_run, args=(drive, stack.pop_all()), name=plan.redrive, daemon=True)
            self._running[plan.redrive] = thread, drive
            thread.start()

    def close(self) -> None:
        """Let the redrives of this process end. They can be continued. Wait up to ``GRACE`` seconds until they have told it."""
        ends = time.monotonic() + GRACE
        with self._lock:
            running = list(self._running.values())
        for _, drive in running:
            drive.halt()
        for thread, _ in running:
            thread.join(max(ends - time.monotonic(), 0))

    def _file(self, redrive: str) -> Path:
        return self._directory / f"{redrive}.json"


def _run(drive: Drive, held: ExitStack) -> None:
    with held:
        try:
            drive.run()
        except Exception:
            log.exception("%s ended with an error; it can be continued", drive.plan.redrive)
