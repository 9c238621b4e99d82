"""The two services: ``python -m bench.resending.services JOB``. The name of the job is the service whose worker runs."""

from __future__ import annotations

import sys
from typing import Any

from pydantic import BaseModel

from bench.children import answer
from bench.serving import serving
from bench.workload import Job
from conversations import Contract, Dialog, Kafka, Service, WorkerSettings

SOURCE, SINK = "source", "sink"


class Item(BaseModel):
    n: int
    text: str


class Receipt(BaseModel):
    n: int


ITEMS = Contract("Items", sent_by_initiator=[Item], sent_by_target=[Receipt], resend="automatic")


def source() -> Service[Any]:
    """The service that begins the dialogs."""
    return Service(SOURCE, initiates=[ITEMS], ignores=[Receipt.__name__])


def sink() -> Service[Any]:
    """The service that accepts them, and answers each item."""
    service: Service[Any] = Service(SINK, accepts=[ITEMS])

    @service.on(Item)
    def receive(item: Item, dialog: Dialog[Any]) -> None:
        dialog.send(Receipt(n=item.n))

    return service


def main(text: str) -> None:
    job = Job.from_json(text)
    kafka, service = Kafka(job.bootstrap, namespace=job.space), {SOURCE: source, SINK: sink}[job.contender]()
    with serving(service, kafka, job.directory, WorkerSettings()) as worker:
        answer({"figures": worker.figures})


if __name__ == "__main__":
    main(sys.argv[1])
