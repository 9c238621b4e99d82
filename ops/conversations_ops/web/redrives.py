"""Redrives that the web console carries out, each in a thread. Terminals see, stop and resume them as they do with their own."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from threading import Lock, Thread

from conversations.errors import DeclarationError, LogError
from conversations.protocol.command import Action
from conversations.protocol.parked import Decision, Parked
from conversations_ops.operate.redrive.drive import Drive
from conversations_ops.operate.redrive.journal import Journal
from conversations_ops.operate.redrive.plan import Care, Plan, plan_of
from conversations_ops.operate.redrive.selection import Selector
from conversations_ops.operate.redrive.stored import store
from conversations_ops.read_model.live import Live
from conversations_ops.read_model.parked import parked_messages
from conversations_ops.read_model.redrives import history, refuse_running

log = logging.getLogger("conversations.ops")
MANY = 4
"""Maximum number of redrives that run in this process at the same time."""
LOOK = 30.0
"""Seconds that the read model may take to be up to date before the letters of a plan are chosen or given back."""
GRACE = 8.0
"""Seconds that redrives may take to end when the console ends."""


class Redrives:
    """The threads that carry out redrives."""

    def __init__(self, live: Live) -> None:
        self._live, self._kafka = live, live.kafka
        self._running: dict[str, tuple[Thread, Drive]] = {}
        self._lock = Lock()

    def make(self, selector: Selector, care: Care, by: str) -> Plan:
        """Write a plan with the held letters that match now.

        Raises:
            LogError: a topic cannot be read or written.
        """
        found, now = self._parked(selector.service), time.time_ns() // 1_000
        plan = plan_of(found, selector, care, self._kafka.namespace, by=by, now=now, random=os.urandom(4))
        if plan.letters:
            store(self._kafka, plan)
            self._live.look_now(LOOK)
        return plan

    def start(self, plan: Plan, by: str, reason: str) -> None:
        """Carry a plan out in a thread, or resume it.

        Raises:
            DeclarationError: it runs already, here or elsewhere, too many run here, or nothing is left to do.
            LogError: the operators topic is missing, or cannot be read.
        """
        with self._lock:
            self._running = {name: it for name, it in self._running.items() if it[0].is_alive()}
            if plan.redrive in self._running:
                raise DeclarationError(f"{plan.redrive} runs already")
            if len(self._running) >= MANY:
                raise DeclarationError(f"{MANY} redrives run in this console already: wait until one of them has ended")
            with self._live.file() as file:
                refuse_running(file, plan.redrive, time.time_ns() // 1_000)
                written, since = history(file, plan.redrive)
            if written.is_over(plan.letters):
                raise DeclarationError(f"{plan.redrive} is done, nothing is left to do")
            journal = Journal(self._kafka, written, since)
            decision = Decision(Action.RETRY, by, reason)
            drive = Drive(self._kafka, plan, journal, decision, self._parked, lambda _counts: None)
            thread = Thread(target=_run, args=(drive, journal), name=plan.redrive, daemon=True)
            self._running[plan.redrive] = thread, drive
            thread.start()

    def _parked(self, service: str = "") -> Sequence[Parked]:
        if not self._live.look_now(LOOK):
            raise LogError(
                f"the letters could not be read in {LOOK:g} s: {self._live.progress.trouble or 'the topics are long'}"
            )
        with self._live.file() as file:
            return parked_messages(self._kafka, file, service)

    def close(self) -> None:
        """Let the redrives of this process end. They can be resumed. Wait up to ``GRACE`` seconds until they have told it."""
        ends = time.monotonic() + GRACE
        with self._lock:
            running = list(self._running.values())
        for _, drive in running:
            drive.halt()
        for thread, _ in running:
            thread.join(max(ends - time.monotonic(), 0))


def _run(drive: Drive, journal: Journal) -> None:
    with journal:
        try:
            drive.run()
        except Exception:
            log.exception("%s ended with an error; it can be resumed", drive.plan.redrive)
