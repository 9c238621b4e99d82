"""Markers of transactions that Kafka left out: found on the brokers' disks, and written as an operator would.

When a transaction ends while one of its partitions has no leader, the coordinator of 4.3.1 takes the partition for deleted
(``KRaftMetadataCache.getPartitionLeaderEndpoint`` has nothing to say of it) and notes the transaction as complete. In that partition
it stays open for ever. Only such a one is ended here: what the product leaves open is open for its coordinator too.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from confluent_kafka.admin import AdminClient

from conversations.kafka.offsets import Place
from conversations_ops.broker.server import HOST
from tests.chaos.cluster.nodes import Nodes
from tests.chaos.cluster.segments import Open, batches, open_transactions, uvarint

LOG_OF_TRANSACTIONS, OFFSETS = "__transaction_state", "__consumer_offsets"
WRITE_MARKERS = 27
VERSION = 1
TIMEOUT = 10.0
"""Seconds a broker may take to write a marker."""
_STATE = struct.Struct(">hqhib")
"""Of a transaction: the format of its value, producer, its epoch, time limit, and how far it is."""
ONGOING, PREPARED, COMPLETE = (1,), {2: True, 3: False}, (4, 5)
"""How far it is: two are prepared, to be committed or not."""


class Marker(NamedTuple):
    """One that is missing."""

    topic: str
    partition: int
    producer: int
    epoch: int
    commit: bool
    coordinator_epoch: int


class Decision(NamedTuple):
    """How the last transaction of a producer that had a partition in it ended, for its coordinator."""

    epoch: int
    commit: bool
    coordinator_epoch: int


def missing(places: Mapping[Place, Path], log: Iterable[Path]) -> list[Marker]:
    """Return the markers that are missing.

    Args:
        places: directories of partitions, at their leaders.
        log: directories of all partitions of the log of transactions, at their leaders.
    """
    before = {place: open_transactions(directory) for place, directory in places.items()}
    if not any(before.values()):
        return []
    decided = complete(log)
    # The same before and after the log was read: no other transaction of this producer has begun between.
    return [
        Marker(*place, transaction.producer, decision.epoch, decision.commit, decision.coordinator_epoch)
        for place, those in before.items()
        for transaction in those & (open_transactions(places[place]) if those else set())
        if (decision := decided.get((transaction.producer, place))) is not None and _of(transaction, decision)
    ]


def _of(transaction: Open, decision: Decision) -> bool:
    """Whether a decision can be about a transaction: its coordinator may have raised the producer's epoch."""
    return decision.epoch >= transaction.epoch


def complete(log: Iterable[Path]) -> dict[tuple[int, Place], Decision]:
    """Return what is complete for the coordinators, by producer and partition."""
    found: dict[tuple[int, Place], Decision] = {}
    under_way: dict[int, dict[Place, Decision]] = {}
    for directory in log:
        for batch in batches(directory):
            for _, value in [] if batch.marker else batch.records():
                if value is None:
                    continue
                _, producer, epoch, _, state = _STATE.unpack_from(value)
                if state in ONGOING:
                    for place in _places(value):
                        found.pop((producer, place), None)
                elif state in PREPARED:
                    decision = Decision(epoch, PREPARED[state], batch.leader_epoch)
                    under_way[producer] = dict.fromkeys(_places(value), decision)
                elif state in COMPLETE:
                    for place, decision in under_way.pop(producer, {}).items():
                        found[producer, place] = decision._replace(coordinator_epoch=batch.leader_epoch)
    return found


def _places(value: bytes) -> list[Place]:
    """Partitions of a transaction, of a value in the format with tagged fields."""
    at = _STATE.size
    topics, at = uvarint(value, at)
    found = []
    for _ in range(topics - 1):
        length, at = uvarint(value, at)
        name, at = value[at : at + length - 1].decode(), at + length - 1
        count, at = uvarint(value, at)
        found += [(name, number) for number in struct.unpack_from(f">{count - 1}i", value, at)]
        at += 4 * (count - 1) + 1  # no tagged fields
    return found


def write_missing(nodes: Nodes, prefix: str) -> list[Marker]:
    """Write what is missing in topics whose names begin so, and in the groups' offsets; return what was written.

    Raises:
        KafkaException: nobody says who leads.
        OSError: a leader does not answer.
    """
    found = AdminClient({"bootstrap.servers": nodes.direct, "log_level": 0}).list_topics(timeout=TIMEOUT).topics
    leaders = {
        (name, number): str(partition.leader)
        for name, topic in found.items()
        for number, partition in topic.partitions.items()
        if partition.leader >= 0
    }
    where = {(name, number): nodes.data(node) / f"{name}-{number}" for (name, number), node in leaders.items()}
    places = {place: path for place, path in where.items() if place[0].startswith((prefix, OFFSETS))}
    log = [path for (name, _), path in where.items() if name == LOG_OF_TRANSACTIONS]
    return [
        marker
        for marker in missing(places, log)
        if write(marker, nodes.port(leaders[marker.topic, marker.partition])) == 0
    ]


def write(marker: Marker, port: int) -> int:
    """Ask the leader at a port to write a marker; return the code of its error, 0 when it has."""
    request = _request(marker)
    with socket.create_connection((HOST, port), TIMEOUT) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        with connection.makefile("rb") as answer:
            (length,) = struct.unpack(">i", answer.read(4))
            # Behind the number of the request and its fields, one marker of one partition of one topic: the name's length varies.
            found = answer.read(length)
    (code,) = struct.unpack_from(">h", found, 4 + 1 + 1 + 8 + 1 + 1 + len(marker.topic) + 1 + 4)
    return int(code)


def _request(marker: Marker) -> bytes:
    name = marker.topic.encode()
    header = struct.pack(">hhih", WRITE_MARKERS, VERSION, 1, 5) + b"chaos\0"
    partitions = struct.pack(">bi", 2, marker.partition)
    topics = b"\2" + bytes([len(name) + 1]) + name + partitions + b"\0"
    of_producer = struct.pack(">qhb", marker.producer, marker.epoch, marker.commit)
    return header + b"\2" + of_producer + topics + struct.pack(">i", marker.coordinator_epoch) + b"\0\0"
