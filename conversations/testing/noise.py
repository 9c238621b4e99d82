"""Unusable records: torn, with another key, or in the wrong partition."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from conversations.durations import milliseconds
from conversations.memory.record import MemoryRecord
from conversations.ports import Out
from conversations.protocol.envelope import decode
from conversations.protocol.integrity import CRC
from conversations.protocol.topics import COMMANDS, DECISIONS, QUEUE, service_topic
from conversations.testing.broker import FaultyBroker


def make(broker: FaultyBroker) -> None:
    """Append an unusable record to the queue, the commands or the decisions of a service. It must be set aside or discarded, and have no other effect."""
    random = broker.chance.random
    service = random.choice(sorted(broker.services))
    queue = service_topic(broker.namespace, service, QUEUE)
    # If a service has forgotten a dialog, it cannot tell that a record of the dialog is in the wrong partition. So only recent
    # records are used.
    recent = milliseconds(broker.clock.now() - broker.periods.start_within // 2)
    known = [
        record
        for records in broker.topics[queue]
        for record in records
        if record.visible
        and record.timestamp()[1] > recent
        and (queue, record.partition(), record.offset()) not in broker.noisy
    ]
    if not known or random.random() < 0.1:
        commands = service_topic(broker.namespace, service, random.choice((COMMANDS, DECISIONS)))
        partition = random.randrange(broker.services[service])
        out = Out(commands, partition, b"k", random.randbytes(random.randrange(40)))
    else:
        kind, record = random.choice(_KINDS), random.choice(known)
        if not _is_remembered(record, broker):
            return  # the service can no longer tell to which partition the record belongs
        out = kind(record, random)
        if out.partition >= broker.services[service]:
            return  # a service with one partition has no wrong partition
        if (kind is not _misrouted and CRC in dict(record.headers() or ())) or (
            broker.seals is not None and kind is _keyless  # it is still an envelope, and its seal does not fit
        ):
            broker.ruin(out)  # its checksum is wrong or missing, or its seal does not fit: it is discarded
            return
    broker.disturb(service, out)


def _is_remembered(record: MemoryRecord, broker: FaultyBroker) -> bool:
    """Return True if the service of a record still has the record's dialog, as an endpoint or a tombstone."""
    return broker.clock.now() < decode(record.value() or b"").prefix.accept_until + broker.periods.grace


def _torn(record: MemoryRecord, random: Random) -> Out:
    value = record.value() or b""
    cut = value[: random.randrange(len(value))]
    return Out(record.topic(), record.partition(), record.key(), cut, record.headers())


def _garbage(record: MemoryRecord, random: Random) -> Out:
    value = random.randbytes(random.randrange(100))
    return Out(record.topic(), record.partition(), record.key(), value, record.headers())


def _empty(record: MemoryRecord, random: Random) -> Out:
    del random  # nothing to draw
    return Out(record.topic(), record.partition(), record.key(), None, record.headers())


def _misrouted(record: MemoryRecord, random: Random) -> Out:
    del random  # nothing to draw
    partition = record.partition() - 1 if record.partition() else 1
    return Out(record.topic(), partition, record.key(), record.value(), record.headers())


def _keyless(record: MemoryRecord, random: Random) -> Out:
    key = None if random.random() < 0.5 else b"somebody else's"
    return Out(record.topic(), record.partition(), key, record.value(), record.headers())


_KINDS: list[Callable[[MemoryRecord, Random], Out]] = [_torn, _garbage, _empty, _misrouted, _keyless]
