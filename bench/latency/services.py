"""The two services of a request: ``python -m bench.latency.services JOB`` runs the service that the job names as its contender.

For each question, ``front`` begins a dialog with ``back`` in the same group. It answers the question when ``back`` has answered.
"""

from __future__ import annotations

import sys
from typing import Any

from pydantic import BaseModel

from bench.children import answer
from bench.serving import serving
from bench.workload import Job
from conversations import Contract, Dialog, Kafka, Service, WorkerSettings

ASKING, FRONT, BACK = "asking", "front", "back"


class Question(BaseModel):
    number: int
    text: str


class Answer(BaseModel):
    number: int
    text: str


class LookUp(BaseModel):
    number: int
    text: str


class Found(BaseModel):
    number: int
    text: str


QUESTIONS = Contract("Questions", sent_by_initiator=[Question], sent_by_target=[Answer])
LOOK_UPS = Contract("LookUps", sent_by_initiator=[LookUp], sent_by_target=[Found])


def front() -> Service[Any]:
    """Return the service that asks ``back``, and then answers its own client."""
    service = Service(FRONT, accepts=[QUESTIONS], initiates=[LOOK_UPS])

    @service.on(Question)
    def ask(question: Question, dialog: Dialog[Any]) -> None:
        look_up = dialog.group.begin_dialog(BACK, LOOK_UPS)
        look_up.send(LookUp(number=question.number, text=question.text))

    @service.on(Found)
    def reply(found: Found, dialog: Dialog[Any]) -> None:
        asked = dialog.group.opened_by
        asked.send(Answer(number=found.number, text=found.text))
        asked.end()

    return service


def back() -> Service[Any]:
    """Return the service that answers at once."""
    service = Service(BACK, accepts=[LOOK_UPS])

    @service.on(LookUp)
    def find(look_up: LookUp, dialog: Dialog[Any]) -> None:
        dialog.send(Found(number=look_up.number, text=look_up.text))
        dialog.end()

    return service


SERVICES = {FRONT: front, BACK: back}


def main(text: str) -> None:
    job = Job.from_json(text)
    kafka = Kafka(job.bootstrap, namespace=job.space)
    with serving(SERVICES[job.contender](), kafka, job.directory, WorkerSettings()) as worker:
        answer({"figures": worker.figures})


if __name__ == "__main__":
    main(sys.argv[1])
