"""Probes: while the brake is on for a peer, the peer's waiting messages are tried one at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from conversations.protocol.rows import QUEUE_ON
from conversations.worker.active import Park
from conversations.worker.brakes import Brakes
from conversations.worker.partition import Partition


class Probe(NamedTuple):
    """A peer's message that is being tried."""

    partition: Partition
    parks: dict[bytes, Park]
    name: bytes
    park: Park

    def is_tried(self, now: int) -> bool:
        """Return True if the message has not had its turn yet: it is due, or is in its lane."""
        park = self.park
        return (park.taken or park.row.due <= now) and not self.partition.gone and self.parks.get(self.name) is park


def wake(brakes: Brakes, partitions: Collection[Partition], now: int) -> None:
    """Release the messages of each peer for which the brake is off again. Then try the next message of each peer for which it is on.

    A message is tried only if it is time for the next try.
    """
    brakes.look(now)
    if brakes.take_released():
        for partition in partitions:
            if not partition.progress.row.off:
                partition.parking.release(now)
    if brakes.is_due(now):
        _try_next(brakes, [it for it in partitions if not it.progress.row.off], now)


def _try_next(brakes: Brakes, partitions: list[Partition], now: int) -> None:
    """Choose the next message to try for each peer for which the brake is on and no message is being tried.

    Each search begins in another partition. Within a partition, the message whose last try is the longest time ago comes first.
    """
    missing = brakes.missing(now)
    for partition, parks in _in_turn(partitions, brakes.take_turn()):
        found = {}
        for name, park in parks.items():
            if not missing:
                break
            if park.row.due == QUEUE_ON and park.peer in missing:
                missing.discard(park.peer)
                found[name] = park
        for name, park in found.items():
            parks[name] = parks.pop(name)
            partition.parking.probe(name, park, now)
            brakes.try_next(park.peer, Probe(partition, parks, name, park))


def _in_turn(partitions: list[Partition], turn: int) -> Iterator[tuple[Partition, dict[bytes, Park]]]:
    """Yield the parks of each partition: those of handlers without a message, and those of dialogs.

    Each turn begins with another partition. After a turn for each partition, the two kinds of parks change their order.
    """
    for step in range(len(partitions)):
        partition = partitions[(turn + step) % len(partitions)]
        both = partition.parking.parks, partition.parking.retries
        for parks in both if turn // len(partitions) % 2 else reversed(both):
            yield partition, parks
