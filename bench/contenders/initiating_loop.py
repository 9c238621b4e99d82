"""An initiator that sends the next message of a dialog for each reply: ``python -m bench.contenders.initiating_loop JOB``.

The contender ``kept`` keeps each message as a row until the next reply acknowledges it. The contender ``off`` keeps nothing
(``Contract(resend="off")``).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

from bench import topics, verify
from bench.contenders import our_loop
from bench.contenders.our_loop import ANSWERING, ASKING, OPAQUE_ORDER
from bench.fill import HOUR, body_of
from bench.topics import Filling
from bench.workload import Job
from conversations import Contract, Dialog, Kafka, MessageType, Service
from conversations.kafka.admin import apply
from conversations.kafka.connection import KafkaConnection
from conversations.protocol.command import Begin, Command, Send, encode_command
from conversations.protocol.envelope import (
    Prefix,
    encode_long,
    encode_message,
    encode_prefix,
    message_run,
)
from conversations.protocol.identifiers import RANDOM_BITS, uuid7
from conversations.protocol.topics import COMMANDS, QUEUE, partition_of, service_topic
from conversations.stores.memory import MemoryStores
from conversations.worker import Worker

REPLY = MessageType("Receipt", "bytes")
BODY = "application/octet-stream"
SPREAD = 0x9E3779B97F4A7C15F39CC0605CEDC835
"""Spreads the ids of dialogs over the partitions, in the same way in each run."""


def contract_of(job: Job) -> Contract:
    """Return the contract of a contender."""
    kept = job.contender == "kept"
    return Contract(
        "Orders", sent_by_initiator=[OPAQUE_ORDER], sent_by_target=[REPLY], resend="by-hand" if kept else "off"
    )


def initiating_service(job: Job) -> Service[Any]:
    """Return a service that sends the body of each reply in its next message."""
    service = Service(ANSWERING, initiates=[contract_of(job)])

    @service.on(REPLY)
    def go_on(body: bytes, dialog: Dialog[Any]) -> None:
        dialog.send(body, type="Order")

    return service


def fill(job: Job) -> None:
    """Begin the dialogs with one message each, and fill the queue of the measured service with the replies of its peer."""
    kafka, load = Kafka(job.bootstrap, namespace=job.space), job.workload
    service, peer = initiating_service(job), Service(ASKING, accepts=[contract_of(job)])
    apply(kafka, [service.declaration(), peer.declaration()], partitions=load.partitions, replication=1)
    now = time.time_ns() // 1_000
    keys = [str(uuid7(now, number * SPREAD % 2**RANDOM_BITS)).encode() for number in range(load.dialogs)]
    topics.fill(job.bootstrap, _commands(job, keys))
    worker = Worker(service, lambda: KafkaConnection(kafka, ANSWERING), MemoryStores(), namespace=job.space)
    try:
        while worker.counts.begun < load.dialogs or worker.busy():
            worker.step(0.1)
    finally:
        worker.close()
    topics.fill(job.bootstrap, _replies(job, keys))


def _commands(job: Job, keys: Sequence[bytes]) -> Iterator[Filling]:
    topic, now, body = service_topic(job.space, ANSWERING, COMMANDS), time.time_ns() // 1_000, body_of(job.workload)
    for key in keys:
        text = key.decode()
        operations = Begin(ASKING, "Orders"), Send("Order", BODY, body)
        command = Command(os.urandom(16), UUID(text).bytes, True, text, "", "bench", now, operations)
        yield topic, partition_of(key, job.workload.partitions), key, encode_command(command), None


def _replies(job: Job, keys: Sequence[bytes]) -> Iterator[Filling]:
    load, now, body = job.workload, time.time_ns() // 1_000, body_of(job.workload)
    topic, run, sent_at = service_topic(job.space, ANSWERING, QUEUE), message_run("Receipt", BODY), encode_long(now)
    dialogs = []
    for key in keys:
        text = key.decode()
        prefix = Prefix(UUID(text).bytes, False, "Orders", ASKING, ANSWERING, text, False, now + HOUR, now + 24 * HOUR)
        dialogs.append((key, encode_prefix(prefix), partition_of(key, load.partitions)))
    for number in range(load.messages):
        key, head, partition = dialogs[number % load.dialogs]
        turn = number // load.dialogs
        value = encode_message(head, turn, turn, sent_at, run, body)
        yield topic, partition, key, value, None


def verdict(job: Job) -> verify.Verdict:
    """Judge the queue of the peer: it has the first message of each dialog, and one for each reply."""
    return verify.queue(job, job.workload.messages + job.workload.dialogs)


if __name__ == "__main__":
    told = Job.from_json(sys.argv[1])
    our_loop.run(told, initiating_service(told))
