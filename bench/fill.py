"""Makes the messages of a run: the same dialogs, order, partitions and bodies for every contender."""

from __future__ import annotations

import time
from collections.abc import Iterator
from uuid import UUID

from bench import topics, wire
from bench.contenders import our_loop
from bench.orders import ORDER, Order
from bench.topics import Filling
from bench.workload import Job, Workload
from conversations import Kafka, Service
from conversations.bodies import codec_of
from conversations.kafka.admin import apply
from conversations.protocol.contract import as_message_type
from conversations.protocol.envelope import (
    Prefix,
    encode_long,
    encode_message,
    encode_prefix,
    message_run,
)
from conversations.protocol.topics import QUEUE, partition_of, service_topic

HOUR = 3600 * 1_000_000


def body_of(workload: Workload) -> bytes:
    """Return a body of the workload's size. Its bytes differ, so that it does not compress as well as zeros."""
    return bytes(33 + (number * number) % 89 for number in range(workload.body_bytes))


def plain(job: Job) -> None:
    """Create the topics of a contender that is not ours, and fill the topic that it reads."""
    load = job.workload
    topics.create(job.bootstrap, [job.source, job.target, job.changelog], load.partitions)
    topics.fill(job.bootstrap, _plain(job))


def _plain(job: Job) -> Iterator[Filling]:
    load, now = job.workload, time.time_ns() // 1_000
    body, _ = _body_and_run(job)
    dialogs = [(key, key.decode(), partition_of(key, load.partitions)) for key in load.record_keys()]
    envelope = {
        "kind": "MESSAGE", "message_type": "Order", "contract": "Orders", "sender": our_loop.ASKING,
        "receiver": our_loop.ANSWERING, "ack": -1, "sent_at": now, "fragment": 0, "code": 0, "body": body,
    }  # fmt: skip
    for number in range(load.messages):
        key, text, partition = dialogs[number % load.dialogs]
        envelope["conversation"], envelope["seq"] = text, number // load.dialogs
        yield job.source, partition, key, wire.encode(envelope), None


def queue(job: Job) -> None:
    """Create both services of one of our contenders, and fill the queue of the measured service."""
    declare(job)
    topics.fill(job.bootstrap, messages(job))


def declare(job: Job) -> None:
    """Create both services of one of our contenders."""
    kafka = Kafka(job.bootstrap, namespace=job.space)
    asking: Service[object] = Service(our_loop.ASKING)  # type: ignore[assignment]  # its state is not used
    declarations = [asking.declaration(), our_loop.opaque_service().declaration()]
    apply(kafka, declarations, partitions=job.workload.partitions, replication=1)


def messages(job: Job) -> Iterator[Filling]:
    """Make the messages for the queue of the measured service. They go to the dialogs in turn."""
    load, now = job.workload, time.time_ns() // 1_000
    topic = service_topic(job.space, our_loop.ANSWERING, QUEUE)
    body, run = _body_and_run(job)
    sent_at = encode_long(now)
    dialogs = [dialog(key, load.partitions, now) for key in load.record_keys()]
    for number in range(load.messages):
        key, prefix, partition = dialogs[number % load.dialogs]
        value = encode_message(prefix, number // load.dialogs, -1, sent_at, run, body)
        yield topic, partition, key, value, None


def dialog(key: bytes, partitions: int, now: int) -> tuple[bytes, bytes, int]:
    """Return the key, encoded prefix and partition of the messages of a dialog. The key is the id of the dialog."""
    text = key.decode()
    prefix = Prefix(
        UUID(text).bytes, True, "Orders", our_loop.ASKING, our_loop.ANSWERING, text, False, now + HOUR, now + 24 * HOUR
    )
    return key, encode_prefix(prefix), partition_of(key, partitions)


def _body_and_run(job: Job) -> tuple[bytes, bytes]:
    if job.contender.endswith("pydantic"):
        codec = codec_of(as_message_type(Order))
        return codec.encode(ORDER), codec.run
    return body_of(job.workload), message_run("Order", "application/octet-stream")
