"""The two services: ``python -m bench.remote.services JOB [sealed]``. The name of the job is the service whose worker runs."""

from __future__ import annotations

import sys
import time
from typing import Any

from pydantic import BaseModel

from bench.children import answer
from bench.memory import forget_peak, peak_mb
from bench.serving import serving
from bench.workload import Job
from conversations import Contract, Dialog, Kafka, Service, WorkerSettings
from conversations.seal_keys import Key, Keys, KeyTable

SOURCE, SINK = "source", "sink"
SEALED = "sealed"
"""Argument with which the two services seal what they say to each other."""
LARGE = 1_000_000
"""Characters of a text from which on an item is not counted among the others."""
_SECRET = bytes(range(32))
"""The key of a benchmark is no secret."""


class Item(BaseModel):
    n: int
    """Number of the item in its dialog."""
    sent: float
    """Seconds since 1970."""
    text: str


ITEMS = Contract("Items", sent_by_initiator=[Item])


class Arrivals:
    """What has arrived in this process, and how long it took."""

    def __init__(self) -> None:
        self.last = 0.0
        self._took: list[float] = []
        self._large: list[float] = []
        self._numbers: dict[str, int] = {}
        self._wrong = 0

    def take(self, dialog: str, n: int, sent: float, size: int) -> None:
        """Note an item, and whether it is the next one of its dialog."""
        if size >= LARGE:
            self._large.append(time.time() - sent)
            return
        self.last = time.time()
        self._took.append(self.last - sent)
        self._wrong += n != self._numbers.get(dialog, -1) + 1
        self._numbers[dialog] = n

    def figures(self) -> dict[str, Any]:
        """Return the number of items, the time of the last one in seconds since 1970, and the processor time of this process."""
        return {
            "count": len(self._took),
            "last": self.last,
            "wrong": self._wrong,
            "cpu_seconds": time.process_time(),
            "large": self._large,
        }

    def took(self, count: int) -> dict[str, Any]:
        """Return the seconds of the last ``count`` items."""
        return {"took": self._took[-count:]}


def memory() -> dict[str, float]:
    """Return the most memory that this process has used since the last call, in MB."""
    found = peak_mb()
    forget_peak()
    return {"peak_mb": round(found, 1)}


def source() -> Service[Any]:
    """The service that begins the dialogs."""
    return Service(SOURCE, initiates=[ITEMS])


def sink(arrivals: Arrivals) -> Service[Any]:
    """The service that accepts them."""
    service: Service[Any] = Service(SINK, accepts=[ITEMS])

    @service.on(Item)
    def receive(item: Item, dialog: Dialog[Any]) -> None:
        arrivals.take(dialog.id, item.n, item.sent, len(item.text))

    return service


def main(text: str, *, sealed: bool) -> None:
    job = Job.from_json(text)
    settings = (
        WorkerSettings(keys=KeyTable(dict.fromkeys((SOURCE, SINK), Keys((Key("bench", _SECRET),)))))
        if sealed
        else WorkerSettings()
    )
    kafka, arrivals = Kafka(job.bootstrap, namespace=job.space), Arrivals()
    service = source() if job.contender == SOURCE else sink(arrivals)
    with serving(service, kafka, job.directory, settings):
        answer({"figures": arrivals.figures, "took": arrivals.took, "memory": memory})


if __name__ == "__main__":
    main(sys.argv[1], sealed=SEALED in sys.argv)
