"""The clients' side of a chaos run: every entry in a command with a key of its own, repeated until Kafka has it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from time import monotonic

from conversations import Client, Kafka
from conversations.errors import NotAccepted
from conversations_ops.settings.given import periods
from tests.chaos.plan import Block, Plan
from tests.chaos.services import ENTRIES, LEDGER, Entry, teller_1

UNDER_WAY = 300
"""Blocks that wait for Kafka's confirmation at the same time."""
PATIENCE = 120.0
"""Seconds in which a block must be confirmed, unless a run says otherwise."""


class Sender:
    """Sends a plan in a thread of its own, never further ahead of the answers than ``ahead`` entries.

    Args:
        answered: says how many entries have been answered.
        patience: seconds in which a block must be confirmed, however often it is repeated.
    """

    def __init__(
        self, kafka: Kafka, plan: Plan, ahead: int, answered: Callable[[], int], patience: float = PATIENCE
    ) -> None:
        self._kafka, self._plan, self._ahead, self._answered = kafka, plan, ahead, answered
        self._patience = patience
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sending", daemon=True)
        self._locks: dict[int, asyncio.Lock] = {}
        self._pads: dict[int, list[str]] = {}
        self.sent = 0
        """Entries whose block was begun."""
        self.repeated = 0
        """Blocks that were not confirmed in time and sent again under the same key."""
        self.done = False
        """Kafka has confirmed all blocks."""
        self.failure: BaseException | None = None

    def _run(self) -> None:
        try:
            with Client(teller_1(), self._kafka, timeout=timedelta(seconds=35), periods=periods()) as client:
                asyncio.run(self._send_all(client))
            self.done = not self._stopping.is_set()
        except BaseException as error:  # noqa: BLE001 - carried to the thread that waits
            self.failure = error

    async def _send_all(self, client: Client) -> None:
        room = asyncio.Semaphore(UNDER_WAY)
        async with asyncio.TaskGroup() as blocks:
            for block in self._plan.blocks:
                await room.acquire()
                # Paces the load, so that queues do not grow without end: nothing that is proved waits for it.
                while self.sent - self._answered() > self._ahead and not self._stopping.is_set():  # noqa: ASYNC110 - the answers are counted by another thread
                    await asyncio.sleep(0.02)
                if self._stopping.is_set():
                    return
                self.sent += block.last - block.first
                # The lock is fair and tasks start in the order they are made: the commands of a dialog stay in order.
                blocks.create_task(self._send(client, block)).add_done_callback(lambda _: room.release())

    async def _send(self, client: Client, block: Block) -> None:
        async with self._locks.setdefault(block.dialog, asyncio.Lock()):
            deadline = monotonic() + self._patience
            while True:
                try:
                    await self._attempt(client, block)
                except NotAccepted:
                    if monotonic() > deadline:
                        raise
                    self.repeated += 1
                else:
                    return

    async def _attempt(self, client: Client, block: Block) -> None:
        name = self._plan.ids[block.dialog]
        pads = self._pads.setdefault(block.dialog, self._plan.pads(block.dialog))
        dialog = client.begin_dialog(LEDGER, ENTRIES, id=name) if block.first == 0 else client.dialog(name)
        async with dialog:
            for n in range(block.first, block.last):
                dialog.send(Entry(n=n, pad=pads[n]), key=f"{name}/{block.first}")
        if block.last == len(pads):
            del self._pads[block.dialog]

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Send while the block runs."""
        self._thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            self._thread.join(PATIENCE)
