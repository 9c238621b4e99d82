"""The brake of a worker: on for a peer, it handles one of its messages at a time, of those that wait, until one succeeds."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from conversations.brake import Failures
from conversations.config import Brake
from conversations.protocol.endpoint import NEVER
from conversations.protocol.rows import QUEUE_ON

if TYPE_CHECKING:
    from conversations.worker.active import Item, Park
    from conversations.worker.partition import Partition  # they are made by what asks here


class Probe(NamedTuple):
    """What is tried of a peer."""

    partition: Partition
    parks: dict[bytes, Park]
    name: bytes
    park: Park

    def is_tried(self, now: int) -> bool:
        """Say whether it has not had its turn yet: what waits for anything but that has."""
        park = self.park
        return (park.taken or park.row.due <= now) and not self.partition.gone and self.parks.get(self.name) is park


class Braking:
    """For which peers a worker's brake is on, and what is being tried of them meanwhile."""

    def __init__(self, brake: Brake | None) -> None:
        self.peers: dict[str, Probe | None] = {}
        """Peers whose messages wait."""
        self.next_probe = NEVER
        """When the next message is tried, while it is on for anybody."""
        self.is_counting = False
        """Handlers that succeed are counted, as some fail."""
        self.well: dict[str, bool] = {}
        """Peers by whether the last handler of one of their dialogs succeeded; ``PEERS`` of them at most."""
        self._failures = Failures(brake) if brake is not None else None
        self._pause = (brake.probe if brake is not None else timedelta(0)) // timedelta(microseconds=1)
        self._released = False
        """It went off for a peer: what waits for it is to go on."""
        self._turn = 0

    @property
    def on(self) -> bool:
        """True while it is on for anybody."""
        return bool(self.peers)

    @property
    def others_go_on(self) -> bool:
        """Whether the messages of a peer are handled for which it is not on: then not the release is to blame."""
        return any(is_well and peer not in self.peers for peer, is_well in self.well.items())

    def hear(self, peer: str, *, is_well: bool) -> None:
        """Note how the last handler of a peer ended."""
        if peer not in self.well and len(self.well) >= Failures.PEERS:
            del self.well[next(iter(self.well))]
        self.well[peer] = is_well

    def failed(self, peer: str, dialog: bytes, now: int) -> int:
        """Count a failure; return how many dialogs had failed if that puts the brake on for the peer."""
        self.hear(peer, is_well=False)
        if self._failures is None or peer in self.peers:
            return 0
        self.is_counting = True
        count = self._failures.note(peer, dialog, now, len(self.peers))
        if count:
            self._failures.clear(peer)
            self.next_probe = min(self.next_probe, now + self._pause)
            self.peers[peer] = None
        return count

    def succeeded(self, peer: str) -> None:
        """Count a handler that succeeded."""
        self.hear(peer, is_well=True)
        if self._failures is not None:
            self._failures.succeeded(peer)

    def holds_back(self, item: Item, peer: str) -> bool:
        """Say whether a handler must wait: it is on for the peer, and something else is being tried."""
        return peer in self.peers and not self.tries(item, peer)

    def tries(self, item: Item, peer: str) -> bool:
        """Say whether an item is the one of a peer that may be handled now."""
        probe = self.peers.get(peer)
        return probe is not None and item.park is probe.park

    def over(self, peer: str) -> None:
        """What was tried of a peer succeeded."""
        del self.peers[peer]
        self._released = True
        if not self.peers:
            self.next_probe = NEVER

    def wake(self, partitions: Collection[Partition], now: int) -> None:
        """Let the next of each peer be tried when it is time, or all of a peer's once it is over."""
        if self.is_counting and self._failures is not None:
            self.is_counting = not self._failures.is_over(now)
        if self._released:
            self._released = False
            for partition in partitions:
                if not partition.progress.row.off:
                    partition.parking.release(now)
        if self.peers and now >= self.next_probe:
            self.next_probe = now + self._pause
            self._try_next([it for it in partitions if not it.progress.row.off], now)

    def _try_next(self, partitions: list[Partition], now: int) -> None:
        """Take another partition each time, and of it what has waited longest since it was tried."""
        missing = {peer for peer, probe in self.peers.items() if probe is None or not probe.is_tried(now)}
        self.peers.update(dict.fromkeys(missing))
        for partition, parks in self._in_turn(partitions):
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
                self.peers[park.peer] = Probe(partition, parks, name, park)
        self._turn += 1

    def _in_turn(self, partitions: list[Partition]) -> Iterator[tuple[Partition, dict[bytes, Park]]]:
        for step in range(len(partitions)):
            partition = partitions[(self._turn + step) % len(partitions)]
            both = partition.parking.parks, partition.parking.retries
            for parks in both if self._turn // len(partitions) % 2 else reversed(both):
                yield partition, parks
