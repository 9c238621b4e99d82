"""Probes: while the brake is on for a peer, the peer's waiting messages are tried one at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from conversations.protocol.park_row import QUEUE_ON
from conversations.worker.active import Park
from conversations.worker.brakes import Brakes
from conversations.worker.partition import Partition


class Probe(NamedTuple):
    """A message that is being tried. The brake is on for its peer."""

    partition: Partition
    parks: dict[bytes, Park]
    name: bytes
    park: Park

    def is_tried(self, now: int) -> bool:
        """Return True until the message has had its turn, or its partition is gone. Before its turn, the message is due or in its lane."""
        park = self.park
        return (park.taken or park.row.due <= now) and not self.partition.gone and self.parks.get(self.name) is park


def wake(brakes: Brakes, partitions: Collection[Partition], now: int) -> None:
    """Release the waiting messages of each peer for which the brake went off.

    If it is time for the next try, also try one message of each peer for which the brake is on.
    """
    brakes.look(now)
    if brakes.take_released():
        for partition in partitions:
            if not partition.progress.row.off:
                partition.parking.release(now)
    if brakes.is_due(now):
        _try_next(brakes, [it for it in partitions if not it.progress.row.off], now)


def try_given_back(partition: Partition, parks: dict[bytes, Park], name: bytes) -> None:
    """Try a message that an operator gave back before the other messages of its peer, if the brake is on for the peer.

    ``name`` is the key of its park in ``parks``. A message of the peer that is being tried already is tried to its end, but its success
    does not turn the brake off.
    """
    park, brakes = parks[name], partition.context.brakes
    if park.peer in brakes.peers:
        brakes.try_next(park.peer, Probe(partition, parks, name, park))


def _try_next(brakes: Brakes, partitions: list[Partition], now: int) -> None:
    """Choose one message of each peer with the brake on, and try it. Choose none if a message of the peer is being tried already.

    Each search begins in another partition. In a partition, the message that has not been tried for the longest time is found first.
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
    """Yield two groups of parks of each partition: the parks of handlers without a message, and the parks of dialogs.

    Each turn begins with another partition. When every partition has been the first one, the order of the two groups is reversed.
    """
    for step in range(len(partitions)):
        partition = partitions[(turn + step) % len(partitions)]
        both = partition.parking.parks, partition.parking.retries
        for parks in both if turn // len(partitions) % 2 else reversed(both):
            yield partition, parks
