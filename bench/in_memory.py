"""One run of a worker on the log in memory: ``python bench/in_memory.py MESSAGES DIALOGS`` prints its CPU time per message.

It imports only the product, from ``PYTHONPATH``, so that ``bench.revisions`` can run it with any revision of the product.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any
from uuid import UUID

from conversations import Contract, Dialog, MessageType, Service, WorkerSettings
from conversations.interpreter import relax
from conversations.memory.broker import MemoryBroker
from conversations.memory.clock import SystemClock
from conversations.memory.connection import MemoryConnection
from conversations.ports import Out
from conversations.protocol import envelope
from conversations.protocol.envelope import (
    Prefix,
    encode_long,
    encode_message,
    encode_prefix,
    message_run,
)
from conversations.protocol.identifiers import uuid7
from conversations.protocol.topics import QUEUE, partition_of, service_topic
from conversations.stores.memory import MemoryStores
from conversations.worker import Worker

HOUR = 3600 * 1_000_000
PARTITIONS = 4
BODY = bytes(33 + (number * number) % 89 for number in range(200))
ORDER, RECEIPT = MessageType("Order", "bytes"), MessageType("Receipt", "bytes")
ORDERS = Contract("Orders", sent_by_initiator=[ORDER], sent_by_target=[RECEIPT])


def answering() -> Service[Any]:
    service: Service[Any] = Service("answering", accepts=[ORDERS])

    @service.on(ORDER)
    def answer(body: bytes, dialog: Dialog[Any]) -> None:
        dialog.send(body)

    return service


def fill(broker: MemoryBroker, messages: int, dialogs: int) -> None:
    """Put messages into the queue. They go to the dialogs in turn, and a third of them acknowledges an answer."""
    now = broker.clock.now()
    topic, sent_at = service_topic(broker.namespace, "answering", QUEUE), encode_long(now)
    known = []
    for number in range(dialogs):
        text = str(UUID(int=uuid7(now, number).int))
        prefix = Prefix(
            UUID(text).bytes, True, "Orders", "asking", "answering", text, False, now + HOUR, now + 24 * HOUR
        )
        known.append((text.encode(), encode_prefix(prefix)))
    run = message_run("Order", "application/octet-stream")
    for number in range(messages):
        key, start = known[number % dialogs]
        at = number // dialogs
        value = encode_message(start, at, at - 2 if at > 2 and at % 3 == 0 else -1, sent_at, run, BODY)
        broker.append(Out(topic, partition_of(key, PARTITIONS), key, value, _headers(value, len(start))))


def _headers(value: bytes, start: int) -> list[tuple[str, bytes]] | None:
    """Return the headers that the measured revision wants: earlier ones set a record without the header ``dialog`` aside."""
    header_of = getattr(envelope, "header_of", None)
    return None if header_of is None else [("dialog", header_of(value, start))]


def reporting(worker: Worker, over: threading.Event) -> None:
    """Report the condition once a second, as a worker process does for its supervisor."""
    while not over.wait(1.0):
        json.dumps(worker.condition())


def main(messages: int, dialogs: int) -> None:
    clock = SystemClock()
    broker = MemoryBroker(clock)
    for name in ("asking", "answering"):
        broker.create_service(name, PARTITIONS)
    fill(broker, messages, dialogs)
    connect = lambda: MemoryConnection(broker, "answering")  # noqa: E731
    worker = Worker(answering(), connect, MemoryStores(), settings=WorkerSettings(), clock=clock)
    over = threading.Event()
    threading.Thread(target=reporting, args=(worker, over), daemon=True).start()
    while len(worker.partitions) < PARTITIONS:
        worker.step(0)
    relax()  # as a worker process does
    before, began = worker.counts.handled, time.process_time()
    while worker.counts.handled < messages:
        worker.step(0)
    seconds = time.process_time() - began
    over.set()
    sys.stdout.write(json.dumps({"us": seconds * 1e6 / (messages - before), "handled": worker.counts.handled}) + "\n")
    sys.stdout.flush()
    worker.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
