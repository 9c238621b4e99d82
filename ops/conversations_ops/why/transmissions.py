"""The reason for which an envelope waits for its peer, as rules over facts: the ``transmission_status`` of Service Broker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from conversations.config import Kafka
from conversations.kafka.catalog import read_catalog
from conversations.kafka.ownership import owned_partitions
from conversations.protocol.topics import QUEUE, service_topic
from conversations_ops.console.times import next_try
from conversations_ops.operate.queues import Queue
from conversations_ops.operate.transmissions import NOT_KEPT, Transmission
from conversations_ops.printable import counted
from conversations_ops.read_model.dialogs import both_sides
from conversations_ops.read_model.file import File
from conversations_ops.read_model.queues import queues
from conversations_ops.read_model.transmissions import Transmissions, partition_of_peer
from conversations_ops.why.cause import Clock
from conversations_ops.why.facts import Way
from conversations_ops.why.ways import ways_to


class Surroundings(NamedTuple):
    """What the reasons depend on. Times are in microseconds since 1970."""

    namespace: str
    services: frozenset[str]
    """The services of the namespace."""
    ways: Mapping[str, Way]
    """The ways to the services on other clusters."""
    owned: Mapping[str, frozenset[int]]
    """The partitions that have an owner, by service."""
    queues: Mapping[tuple[str, int], Queue]
    """The queues of services, by service and partition."""
    peers: Mapping[bytes, int]
    """The partition of the other side, by the name of a side; without the sides whose peer is not known."""
    before: Mapping[bytes, str]
    """The dialog for which a side waits, because it is before it in its pool."""
    now: int


def reason(it: Transmission, known: Surroundings, clock: Clock) -> str:
    """Say why an envelope still waits, in one line. The first rule that fits says it."""
    if it.partition not in known.owned.get(it.service, frozenset()):
        return f"no worker of {it.service} has partition {it.partition}"
    if it.own in known.before:
        return f"waits for dialog {known.before[it.own]}, which is before it in its pool"
    way = known.ways.get(it.peer)
    if way is not None:
        return _on_the_way(it, way, known.now, clock)
    if it.peer not in known.services:
        return f"the namespace has no service {it.peer!r}"
    if it.delayed:
        return f"{service_topic(known.namespace, it.peer, QUEUE)} takes no records now"
    return _at_the_peer(it, known, clock)


def _on_the_way(it: Transmission, way: Way, now: int, clock: Clock) -> str:
    if not way.is_carried:
        since_when = "" if way.ended is None else f" since {clock(way.ended)}"
        return f"route to {way.cluster}: no forwarder runs{since_when}{_next(it, now)}"
    if way.away is not None:
        since, why = way.away
        return f"route to {way.cluster}: away since {clock(since)}: {why}{_next(it, now)}"
    if it.delayed:
        return f"the transmission topic to {way.cluster} takes no records now"
    tried = f"tried again {counted(it.tries, 'time')}" if it.tries else "not tried again"
    lacked = "" if way.lacked is None else f"; {way.cluster} had no service {it.peer!r} at {clock(way.lacked)}"
    return f"waits for the acknowledgement from {way.cluster}, {tried}{_next(it, now)}{lacked}"


def _next(it: Transmission, now: int) -> str:
    again = next_try(it.next_try, now)
    return again and f", {again}"


def _at_the_peer(it: Transmission, known: Surroundings, clock: Clock) -> str:
    """Say why a peer on this cluster does not acknowledge. If its partition is not known, all of its partitions are looked at."""
    mine = known.peers.get(it.own)
    numbers = [number for name, number in known.queues if name == it.peer and mine in (None, number)]
    for number in numbers:
        queue = known.queues[it.peer, number]
        if queue.off:
            return f"the queue of {it.peer} is off since {clock(queue.since)} ({queue.off})"
    if any(number not in known.owned.get(it.peer, frozenset()) for number in numbers):
        return f"no worker of {it.peer} runs"
    return (
        "waits for the acknowledgement" if it.what != NOT_KEPT else "waits for the acknowledgement; it is not kept here"
    )


def surroundings(kafka: Kafka, file: File, found: Transmissions, now: int) -> Surroundings:
    """Collect what the reasons of some envelopes depend on.

    Raises:
        LogError: the catalog or a group cannot be read.
    """
    catalog = read_catalog(kafka)
    services = frozenset(catalog.services)
    peers = {it.peer for it in found.first}
    sides = {it.own: it for it in found.first}
    names = ({it.service for it in found.first} | peers) & services
    return Surroundings(
        kafka.namespace,
        services,
        ways_to(kafka, file, catalog, peers),
        {name: owned_partitions(kafka, name) for name in names},
        {(it.service, it.partition): it for name in peers & services for it in queues(file, name)},
        {own: number for own, it in sides.items() if (number := partition_of_peer(file, it)) is not None},
        {own: before for own, it in sides.items() if it.delayed and (before := _before(file, kafka.namespace, own))},
        now,
    )


def _before(file: File, namespace: str, own: bytes) -> str:
    return next((side.before for side in both_sides(file, namespace, own[:16]) if side.identity == own), "")
