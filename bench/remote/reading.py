"""A plain consumer of a mirrored topic: ``python -m bench.remote.reading JOB TOPIC``."""

from __future__ import annotations

import json
import sys
import threading

from confluent_kafka import Consumer, Message, TopicPartition

from bench.children import answer
from bench.remote.services import Arrivals
from bench.workload import PARTITIONS, Job

_failed = Message.error


def main(text: str, topic: str) -> None:
    job, arrivals, stopping = Job.from_json(text), Arrivals(), threading.Event()
    consumer = Consumer({
        "bootstrap.servers": job.bootstrap, "group.id": f"{topic}.plain", "enable.auto.commit": False,
        "auto.offset.reset": "earliest", "fetch.wait.max.ms": 10, "log_level": 3,
    })  # fmt: skip
    ends = [consumer.get_watermark_offsets(TopicPartition(topic, it), 30)[1] for it in range(PARTITIONS)]
    consumer.assign([TopicPartition(topic, number, end) for number, end in enumerate(ends)])

    def read() -> None:
        while not stopping.is_set():
            for message in consumer.consume(1_000, 0.05):
                if _failed(message) is None:
                    item = json.loads(message.value() or b"")
                    arrivals.take((message.key() or b"").decode(), item["n"], item["sent"], len(item["text"]))

    thread = threading.Thread(target=read)
    thread.start()
    answer({"figures": arrivals.figures, "took": arrivals.took})
    stopping.set()
    thread.join()
    consumer.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
