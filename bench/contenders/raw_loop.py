"""The bare loop: the least that a Python process must do to be exactly-once and in order on Kafka.

For each message: consume, Avro decode, one dictionary look-up against duplicates, Avro encode, reply. For each batch: one
changelog record for each dialog in it, the offsets, one transaction. There is no contract, no error handling and no timer,
and a crash would lose the dictionary: ``python -m bench.contenders.raw_loop JOB``. With Pydantic bodies it validates each body, and answers with
one that it makes and encodes, as a handler of ours does.
"""

from __future__ import annotations

import gc
import struct
import sys
from typing import Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from pydantic import TypeAdapter

from bench.orders import Order, Receipt
from bench.stopwatch import Stopwatch, report
from bench.wire import decode, encode
from bench.workload import Job

NUMBER = struct.Struct(">q")
ORDERS, RECEIPTS = TypeAdapter(Order).validator, TypeAdapter(Receipt).serializer


def answer_typed(body: bytes) -> bytes:
    """Validate the body of an order, and return the body of its receipt."""
    order = ORDERS.validate_json(body)
    receipt = Receipt(number=order.number, customer=order.customer, item=order.item, quantity=order.quantity)
    return RECEIPTS.to_json(receipt)


class Loop:
    """A consumer, a transactional producer, and the next number of each dialog."""

    def __init__(self, job: Job) -> None:
        self.job = job
        common = {"bootstrap.servers": job.bootstrap, "log_level": 3}
        self.consumer = Consumer({
            **common, "group.id": job.space, "enable.auto.commit": False, "auto.offset.reset": "earliest",
            "isolation.level": "read_committed", "queued.min.messages": 200_000, "fetch.wait.max.ms": 100,
        })  # fmt: skip
        self.producer = Producer({
            **common, "transactional.id": job.space, "linger.ms": 5, "batch.size": 1_000_000, "compression.type": "lz4",
            "queue.buffering.max.messages": 1_000_000, "retry.backoff.ms": 1,
        })  # fmt: skip
        self.answer = answer_typed if job.contender.endswith("pydantic") else None
        self.expected: dict[str, int] = {}
        self.watch = Stopwatch()

    def run(self) -> tuple[int, int]:
        """Work until every message is answered; return the number of messages read and the number of transactions."""
        self.producer.init_transactions()
        self.consumer.subscribe([self.job.source])
        done = commits = 0
        while done < self.job.workload.messages:
            first = self.consumer.poll(1)
            if first is None:
                continue
            self.watch.start()
            records = [first, *self.consumer.consume(self.job.workload.batch - 1, 0)]
            self._commit(records)
            done += len(records)
            commits += 1
            if done >= self.job.workload.dialogs:
                self.watch.opened(done)
        return done, commits

    def _commit(self, records: list[Message]) -> None:
        self.producer.begin_transaction()
        touched: dict[str, int] = {}
        offsets: dict[int, int] = {}
        expected, produce, target, answer = self.expected, self.producer.produce, self.job.target, self.answer
        for record in records:
            envelope: dict[str, Any] = decode(record.value())  # type: ignore[arg-type]  # a record without value fails
            conversation, seq = envelope["conversation"], envelope["seq"]
            if seq != expected.get(conversation, 0):
                continue
            expected[conversation] = touched[conversation] = seq + 1
            if answer is not None:
                envelope["body"] = answer(envelope["body"])
            envelope["kind"], envelope["ack"] = "REPLY", seq
            partition = record.partition() or 0
            produce(target, encode(envelope), conversation, partition)
            offsets[partition] = record.offset() + 1  # type: ignore[operator]  # consumed: both are there
        for conversation, number in touched.items():
            produce(self.job.changelog, NUMBER.pack(number), conversation)
        # There is no flush before the offsets, because this is faster. The batches are so large that the coordinator already knows every
        # partition.
        where = [TopicPartition(self.job.source, partition, offset) for partition, offset in offsets.items()]
        self.producer.send_offsets_to_transaction(where, self.consumer.consumer_group_metadata())
        self.producer.commit_transaction()


def main(text: str) -> None:
    gc.collect()  # our workers do this too; it saves some percent here
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    loop = Loop(Job.from_json(text))
    done, commits = loop.run()
    elapsed = loop.watch.elapsed()
    loop.consumer.close()
    report(done, elapsed, commits, lap=loop.watch.lap)


if __name__ == "__main__":
    main(sys.argv[1])
