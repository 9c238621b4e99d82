"""What the measurements between clusters share: two brokers, records to send, and the way of sending them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from confluent_kafka import Consumer, Producer, TopicPartition

from bench import topics
from bench.children import Child, RunFailed
from bench.remote.services import ITEMS, SINK, SOURCE, Item
from bench.topics import Filling
from bench.workload import BODY_BYTES, PARTITIONS, Job, Workload
from conversations.bodies import codec_of
from conversations.protocol.command import Command, Send, encode_command
from conversations.protocol.contract import as_message_type
from conversations.protocol.envelope import Envelope, Kind, Prefix, encode
from conversations.protocol.topics import COMMANDS, partition_of, service_topic, transmission_topic

HOME, AWAY = "home", "away"
HOUR = 3_600_000_000
"""Microseconds."""
TEXT = "x" * BODY_BYTES
LOOK = 0.05
"""Seconds between two looks at what has arrived."""


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    rounds: int = 3
    messages: int = 20_000
    dialogs: int = 500
    rate: int = 100
    """Messages per second of the latencies."""
    timed: int = 1_500
    """Number of messages of the latencies."""
    waiting: int = 100_000
    """Number of messages that wait while there is no forwarder."""
    large: int = 64_000_000
    """Bytes of each of the large messages."""
    small_dialogs: int = 1_000
    """Number of dialogs with small messages beside the large ones."""


@dataclass(frozen=True)
class Brokers:
    """The two brokers, and a directory for local state and logs."""

    here: str
    there: str
    directory: Path
    patience: float = 900.0
    """Maximum number of seconds of one measurement."""

    def child(self, module: str, name: str, space: str, bootstrap: str, *arguments: str) -> Child:
        """Return a process of a module of this package, which gets a job."""
        job = Job(name, bootstrap, space, str(self.directory), Workload())
        return Child(f"bench.remote.{module}", job.to_json(), *arguments)

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Look again and again until a condition is true.

        Raises:
            RunFailed: it takes too long.
        """
        deadline = time.monotonic() + self.patience
        while not condition():
            if time.monotonic() > deadline:
                raise RunFailed(f"{what} after {self.patience:g} s")
            time.sleep(LOOK)


def ids(count: int) -> list[str]:
    """Return ids of dialogs, spread over the space of ids."""
    return [key.decode() for key in Workload(dialogs=count).record_keys()]


def plain(topic: str, names: list[str], numbers: range) -> Iterator[Filling]:
    """Yield a record for each item: the next one of each dialog in turn."""
    for number in numbers:
        name = names[number % len(names)].encode()
        item = Item(n=number // len(names), sent=time.time(), text=TEXT)
        yield topic, partition_of(name, PARTITIONS), name, item.model_dump_json().encode(), None


def commands(space: str, names: list[str], numbers: range) -> Iterator[Filling]:
    """Yield the command of a client for each item, on dialogs that have begun."""
    topic, codec = service_topic(space, SOURCE, COMMANDS), codec_of(as_message_type(Item))
    for number in numbers:
        name = names[number % len(names)]
        item = Item(n=number // len(names), sent=time.time(), text=TEXT)
        send = Send(codec.name, codec.content_type, codec.encode(item))
        now = time.time_ns() // 1_000
        command = Command(os.urandom(16), UUID(name).bytes, True, name, "", "bench", now, (send,))
        yield topic, partition_of(name.encode(), PARTITIONS), name.encode(), encode_command(command), None


def envelopes(space: str, names: list[str], numbers: range) -> Iterator[Filling]:
    """Yield an envelope of the transmission topic for each item, as the worker of the source writes it."""
    topic, codec = transmission_topic(space, AWAY), codec_of(as_message_type(Item))
    now = time.time_ns() // 1_000
    for number in numbers:
        name, n = names[number % len(names)], number // len(names)
        prefix = Prefix(UUID(name).bytes, True, ITEMS.name, SOURCE, SINK, name, True, now + HOUR, now + 24 * HOUR)
        body = codec.encode(Item(n=n, sent=time.time(), text=TEXT))
        value = encode(
            Envelope(
                prefix,
                Kind.MESSAGE,
                n,
                -1,
                sent_at=now,
                message_type=codec.name,
                content_type=codec.content_type,
                body=body,
            )
        )
        yield topic, partition_of(name.encode(), PARTITIONS), name.encode(), value, None


def pace(bootstrap: str, records: Iterator[Filling], rate: int) -> None:
    """Append ``rate`` records per second, each at once. ``records`` is asked for each record when the record is due."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": "all", "log_level": 3})
    produce: Any = producer.produce
    begin = time.monotonic()
    number = 0
    while True:
        if (ahead := begin + number / rate - time.monotonic()) > 0:
            producer.poll(0)
            time.sleep(ahead)
        record = next(records, None)
        if record is None:
            break
        topic, partition, key, value, _ = record
        produce(topic, value, key, partition)
        number += 1
    if producer.flush(60):
        raise RunFailed("a record was not appended within 60 s")


def appended(bootstrap: str, topic: str) -> int:
    """Return the sum of the ends of a topic's partitions. Markers of transactions count, too."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"{topic}.ends", "log_level": 3})
    try:
        return sum(consumer.get_watermark_offsets(TopicPartition(topic, it), 30)[1] for it in range(PARTITIONS))
    finally:
        consumer.close()


def per_second(bootstrap: str, topic: str, count: int) -> float:
    """Return the records per second from the first append to the last one, by the times that the broker noted.

    Raises:
        RunFailed: the topic has another number of records.
    """
    at = sorted(message.timestamp()[1] for message in topics.read(bootstrap, topic, PARTITIONS))
    if len(at) != count:
        raise RunFailed(f"{topic} has {len(at)} records instead of {count}")
    return 1e3 * count / max(1, at[-1] - at[0])
