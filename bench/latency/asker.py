"""The client process: ``python -m bench.latency.asker JOB``.

It asks one question at a time, or it asks at a rate without waiting for answers.
"""

from __future__ import annotations

import asyncio
import sys
import time
from datetime import timedelta
from typing import Any

from bench.children import answer
from bench.latencies import open_loop
from bench.latency.services import ASKING, FRONT, QUESTIONS, Answer, Question
from bench.workload import Job
from conversations import Client, ConversationError, Kafka, local

PATIENCE = timedelta(seconds=30)
PAUSE = 0.15
"""Seconds between two questions of ``idle``, so that all work for the first question has ended: receipts wait 50 ms for a commit (``worker.hold``)."""
TEXT = "x" * 100


class Asker:
    """Asks questions, and reports how long each answer took and which answers were wrong."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._asked = 0

    def idle(self, count: int) -> dict[str, Any]:
        """Ask one question at a time."""
        took, wrong, spans = [], [], []
        for _ in range(count):
            question = self._next()
            begin, at = time.perf_counter(), time.time()
            try:
                answered = self._ask(question).result()
                took.append(time.perf_counter() - begin)
                spans.append((at, time.time()))
                if answered.number != question.number:
                    wrong.append(f"question {question.number} got the answer to {answered.number}")
            except ConversationError as error:
                wrong.append(str(error))
            time.sleep(PAUSE)
        return {**self._told(took, wrong, time.process_time()), "spans": spans}

    def loaded(self, rate: float, count: int) -> dict[str, Any]:
        """Ask ``rate`` questions per second. Times are measured from when a question was due."""
        took: list[float] = []
        wrong: list[str] = []

        async def ask(_number: int, due: float) -> None:
            question = self._next()
            try:
                answered = await self._ask(question)
                took.append(time.perf_counter() - due)
                if answered.number != question.number:
                    wrong.append(f"question {question.number} got the answer to {answered.number}")
            except ConversationError as error:
                wrong.append(str(error))

        generator = asyncio.run(open_loop(rate, count, ask))
        return {**self._told(took, wrong, time.process_time()), **generator}

    def _next(self) -> Question:
        self._asked += 1
        return Question(number=self._asked, text=TEXT)

    def _ask(self, question: Question) -> Any:
        return self._client.request(FRONT, QUESTIONS, question, reply=Answer, timeout=PATIENCE)

    @staticmethod
    def _told(took: list[float], wrong: list[str], cpu: float) -> dict[str, Any]:
        return {"took": took, "wrong": wrong, "cpu_seconds": cpu}


def main(text: str) -> None:
    job = Job.from_json(text)
    kafka = Kafka(job.bootstrap, namespace=job.space)
    with local(kafka=kafka, initiates=[QUESTIONS], name=ASKING) as client:
        asker = Asker(client)
        answer({
            "idle": asker.idle,
            "loaded": asker.loaded,
            "figures": lambda: {"cpu_seconds": time.process_time()},
        })  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1])
