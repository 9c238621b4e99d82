"""Operators of a chaos run: they decide about what is held, and turn queues on again, as often as it takes."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from queue import Empty, SimpleQueue
from uuid import UUID

from conversations.config import Kafka
from conversations.errors import LogError
from conversations.protocol.command import Action, Command, Failed, Resolve, Switch, to_partition
from conversations_ops.operate.commands import Refused, ask
from tests.chaos.fates import CODES, MENDED
from tests.chaos.plan import Plan
from tests.chaos.services import LEDGER
from tests.chaos.watch import Held, Off

PATIENCE = 20.0
"""Seconds an owner may take to answer; the command is kept and takes effect even if nobody hears of it."""


class Operators:
    """Carry out, in a thread of its own, what the plan says is decided."""

    def __init__(self, kafka: Kafka, plan: Plan) -> None:
        self._kafka, self._plan = kafka, plan
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="operators", daemon=True)
        self.todo: SimpleQueue[Held | Off] = SimpleQueue()
        self.counts: Counter[str] = Counter()
        self.failure: BaseException | None = None

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Work while the block runs."""
        self._thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                with contextlib.suppress(Empty):
                    self._do(self.todo.get(timeout=0.2))
        except BaseException as error:  # noqa: BLE001 - carried to the thread that waits
            self.failure = error

    def _do(self, what: Held | Off) -> None:
        command = self._decision(what) if isinstance(what, Held) else self._switch(what)
        try:
            ask(self._kafka, LEDGER, [command], PATIENCE)
        except Refused:
            self.counts["decisions refused"] += 1  # somebody repeated it on the wire, and was faster
        except LogError:
            self.counts["decisions unanswered"] += 1
            if not self._stopping.is_set():
                self.todo.put(what)  # if it was carried out after all, this one is refused

    def _decision(self, held: Held) -> Command:
        fate = self._plan.fates[held.conversation]
        action = fate.decision or Action.RETRY
        body = json.dumps({"n": fate.n, "pad": MENDED}).encode() if action is Action.EDIT else b""
        code, why = (CODES[fate.then], "ended by an operator") if action is Action.END else (0, "")
        self.counts[f"decided {action.value.lower()}"] += 1
        operation = Resolve(
            Failed.MESSAGE.value, fate.n, held.ticket, action.value, body, code, why, "a chaos run"
        )  # fmt: skip
        name, now = UUID(held.conversation).bytes, time.time_ns() // 1_000
        return Command(os.urandom(16), name, False, held.conversation, "", "operators", now, (operation,))

    def _switch(self, off: Off) -> Command:
        self.counts["queues turned on"] += 1
        where = off.partition, self._plan.partitions
        return to_partition(
            where, Switch(True, "a chaos run"), "operators", os.urandom(16), time.time_ns() // 1_000
        )  # fmt: skip
