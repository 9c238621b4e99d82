"""The same hops without us: ``python -m bench.latency.bare_chain JOB`` runs the process that the job names as its contender.

The records take the way of a request through two services, in the same three processes. Each hop reads one record, and writes the next one, a
changelog record and its position in a transaction. There are no dialogs, no numbers, no handlers and no stores. So this is the least
that these hops cost with Kafka's client.
"""

from __future__ import annotations

import sys
import threading
import time
from itertools import pairwise
from typing import Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from bench.children import answer
from bench.latency.asker import PAUSE
from bench.latency.services import ASKING, BACK, FRONT
from bench.workload import Job

COMMANDS, QUESTIONS, LOOK_UPS, FOUND, ANSWERS, CHANGES = (
    "commands",
    "questions",
    "look-ups",
    "found",
    "answers",
    "changes",
)
WAY = (COMMANDS, QUESTIONS, LOOK_UPS, FOUND, ANSWERS)
"""The topics that a request passes, in order. Each has one partition."""
NEXT = dict(pairwise(WAY))
READS = {ASKING: (COMMANDS, ANSWERS), FRONT: (QUESTIONS, FOUND), BACK: (LOOK_UPS,)}
BODY = bytes(200)
PATIENCE = 30.0


class Link:
    """One process of the chain: it carries each record that it reads to the next topic."""

    def __init__(self, job: Job) -> None:
        self._space, role = job.space, job.contender
        common = {"bootstrap.servers": job.bootstrap, "log_level": 3}
        self._consumer = Consumer({
            **common, "group.id": f"{job.space}.{role}", "enable.auto.commit": False, "auto.offset.reset": "earliest",
            "isolation.level": "read_committed", "fetch.wait.max.ms": 100,
        })  # fmt: skip
        self._producer = Producer(
            {**common, "transactional.id": f"{job.space}.{role}", "linger.ms": 5, "retry.backoff.ms": 1}
        )
        self._plain = Producer({**common, "linger.ms": 0, "acks": "all"})
        self._came = threading.Event()
        self._producer.init_transactions()
        self._consumer.assign([TopicPartition(self._topic(name), 0, 0) for name in READS[role]])
        threading.Thread(target=self._carry, daemon=True).start()

    def _topic(self, name: str) -> str:
        return f"{self._space}.{name}"

    def _carry(self) -> None:
        while True:
            record = self._consumer.poll(1.0)
            if record is None or record.error() is not None:
                continue
            following = NEXT.get(str(record.topic()).removeprefix(f"{self._space}."))
            if following is None:
                self._came.set()
            else:
                self._move(record, self._topic(following))

    def _move(self, record: Message, to: str) -> None:
        self._producer.begin_transaction()
        self._producer.produce(to, record.value(), record.key(), 0)
        self._producer.produce(self._topic(CHANGES), record.value(), record.key(), 0)
        self._producer.flush()
        position = TopicPartition(str(record.topic()), 0, (record.offset() or 0) + 1)
        self._producer.send_offsets_to_transaction([position], self._consumer.consumer_group_metadata())
        self._producer.commit_transaction()

    def idle(self, count: int) -> dict[str, Any]:
        """Send one record at a time through the chain."""
        took, spans = [], []
        for number in range(count):
            self._came.clear()
            begin, at = time.perf_counter(), time.time()
            self._plain.produce(self._topic(COMMANDS), BODY, b"%d" % number, 0)
            self._plain.poll(0)
            if not self._came.wait(PATIENCE):
                break
            took.append(time.perf_counter() - begin)
            spans.append((at, time.time()))
            time.sleep(PAUSE)
        return {"took": took, "wrong": [], "spans": spans}


def main(text: str) -> None:
    link = Link(Job.from_json(text))
    answer({"idle": link.idle, "figures": lambda: {"cpu_seconds": time.process_time()}})


if __name__ == "__main__":
    main(sys.argv[1])
