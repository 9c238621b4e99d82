"""A service with a handler that blocks and a handler that answers at once: ``python -m bench.blocked.services JOB SECONDS``."""

from __future__ import annotations

import sys
import time
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from bench.children import answer
from bench.serving import serving
from bench.workload import Job
from conversations import Contract, Dialog, Kafka, PoisonPolicy, Service, Then, WorkerSettings

ASKING, ANSWERING = "asking", "answering"
SPARE = 60.0
"""The time limit of the handler is the time of the block, and this many seconds more."""


STORM = PoisonPolicy(delays=[timedelta(0), timedelta(seconds=0.2), timedelta(seconds=1)], then=Then.SKIP)
"""A message is skipped after four attempts. Then the next message of its dialog fails too, so some message always fails."""


class Order(BaseModel):
    number: int
    text: str
    fails: bool = False


class Receipt(BaseModel):
    number: int
    text: str


class Block(BaseModel):
    seconds: float


class Blocked(BaseModel):
    began: float
    """By ``time.time`` of this machine."""
    ended: float


ORDERS = Contract("Orders", sent_by_initiator=[Order, Block], sent_by_target=[Receipt, Blocked])


class Answering:
    """The service, and whether its handler blocks now."""

    def __init__(self, longest: float) -> None:
        self.blocking = False
        self.service: Service[Any] = Service(ANSWERING, accepts=[ORDERS], poison=[STORM])
        self.service.on(Order)(self._receipt)
        self.service.on(Block, time_limit=timedelta(seconds=longest + SPARE))(self._block)

    def _receipt(self, order: Order, dialog: Dialog[Any]) -> None:
        if order.fails:
            raise ValueError("it fails at every attempt")
        dialog.send(Receipt(number=order.number, text=order.text))

    def _block(self, block: Block, dialog: Dialog[Any]) -> None:
        began = time.time()
        self.blocking = True
        time.sleep(block.seconds)
        self.blocking = False
        dialog.send(Blocked(began=began, ended=time.time()))


def main(text: str, longest: str) -> None:
    job = Job.from_json(text)
    answering = Answering(float(longest))
    kafka = Kafka(job.bootstrap, namespace=job.space)
    with serving(answering.service, kafka, job.directory, WorkerSettings()) as worker:
        answer({"figures": lambda: {**worker.figures(), "blocking": answering.blocking}})


if __name__ == "__main__":
    main(*sys.argv[1:])
