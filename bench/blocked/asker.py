"""The client process: ``python -m bench.blocked.asker JOB``.

On one of its dialogs the client makes a handler block. On its other dialogs it sends at a steady rate.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from typing import Any

from bench.blocked.services import ANSWERING, ASKING, ORDERS, Block, Blocked, Order, Receipt
from bench.children import answer
from bench.latencies import open_loop
from bench.serving import serving
from bench.workload import Job
from conversations import Client, Dialog, Kafka, NotAccepted, Service, WorkerSettings

PATIENCE = 30.0
"""Seconds that the last answers may take."""
TEXT = "x" * 100


class Asker:
    """Sends orders, and keeps when each was due and when its receipt came."""

    def __init__(self) -> None:
        self.client: Client
        self.service: Service[Any] = Service(ASKING, initiates=[ORDERS])
        self.service.on(Receipt)(self._receipt)
        self.service.on(Blocked)(self._blocked)
        self._dialogs: list[str] = []
        self._due: dict[int, float] = {}
        self._came: dict[int, float] = {}
        self._twice = 0
        self._sent = 0
        self._changed = threading.Condition()
        self._block: dict[str, float] | None = None

    def _receipt(self, receipt: Receipt, _dialog: Dialog[Any]) -> None:
        now = time.perf_counter()
        with self._changed:
            self._twice += receipt.number in self._came
            self._came[receipt.number] = now
            self._changed.notify_all()

    def _blocked(self, blocked: Blocked, _dialog: Dialog[Any]) -> None:
        with self._changed:
            self._block = {"began": blocked.began, "ended": blocked.ended}
            self._changed.notify_all()

    def begin(self, dialogs: int) -> dict[str, Any]:
        """Begin the dialogs with one order each, and wait for the receipts."""
        numbers = []
        for _ in range(dialogs):
            with self.client.begin_dialog(ANSWERING, ORDERS) as dialog:
                numbers.append(self._order(dialog, time.perf_counter()))
            self._dialogs.append(dialog.id)
        return {"unanswered": self._await(numbers)}

    def block(self, seconds: float) -> dict[str, Any]:
        """Begin one more dialog, and make its handler block."""
        with self._changed:
            self._block = None
        with self.client.begin_dialog(ANSWERING, ORDERS) as dialog:
            dialog.send(Block(seconds=seconds))
        return {}

    def unblocked(self, seconds: float) -> dict[str, Any]:
        """Wait for the answer of the handler that blocked, and return when the block began and ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._block is not None, seconds)
            return {"block": self._block}

    def steady(self, rate: float, count: int, sick: int = 0) -> dict[str, Any]:
        """Send ``rate`` orders per second, to the dialogs in turn. Times are measured from when an order was due. ``due`` has these
        moments, by ``time.time``.

        The orders of the first ``sick`` dialogs fail, so nothing waits for their receipts.
        """
        numbers: list[int] = []
        refused: list[str] = []
        began = time.time()

        async def send(number: int, due: float) -> None:
            try:
                place = number % len(self._dialogs)
                async with self.client.dialog(self._dialogs[place]) as dialog:
                    told = self._order(dialog, due, fails=place < sick)
                if place >= sick:
                    numbers.append(told)
            except NotAccepted as error:
                refused.append(str(error))

        generator = asyncio.run(open_loop(rate, count, send))
        unanswered = self._await(numbers)
        with self._changed:
            answered = [number for number in numbers if number in self._came]
            took = [self._came[number] - self._due[number] for number in answered]
            shift = time.time() - time.perf_counter()
            told = {
                "took": took,
                "due": [self._due[number] + shift for number in answered],
                "unanswered": unanswered,
                "twice": self._twice,
                "refused": refused,
            }
        return {**told, **generator, "cpu_seconds": time.process_time(), "began": began, "ended": time.time()}

    def _order(self, dialog: Any, due: float, *, fails: bool = False) -> int:
        with self._changed:
            self._sent += 1
            number = self._sent
            self._due[number] = due
        dialog.send(Order(number=number, text=TEXT, fails=fails))
        return number

    def _await(self, numbers: list[int]) -> int:
        """Wait until all orders are answered; return how many are not answered in time."""
        wanted = set(numbers)
        with self._changed:
            self._changed.wait_for(lambda: wanted <= self._came.keys(), PATIENCE)
            return len(wanted - self._came.keys())


def main(text: str) -> None:
    job = Job.from_json(text)
    kafka = Kafka(job.bootstrap, namespace=job.space)
    asker = Asker()
    settings = WorkerSettings()
    with serving(asker.service, kafka, job.directory, settings) as worker, Client(asker.service, kafka) as client:
        asker.client = client
        answer({
            "begin": asker.begin,
            "block": asker.block,
            "unblocked": asker.unblocked,
            "steady": asker.steady,
            "figures": worker.figures,
        })  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1])
