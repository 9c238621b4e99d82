"""The brake of a worker: while it is on for a peer, one waiting message of that peer is handled at a time, until one succeeds."""

from __future__ import annotations

from datetime import timedelta
from typing import Protocol

from conversations.brake import Failures
from conversations.config import Brake
from conversations.protocol.endpoint import NEVER


class Tried(Protocol):
    """The message of a peer that is tried."""

    @property
    def park(self) -> object:
        """Where it waits."""

    def is_tried(self, now: int) -> bool:
        """Say whether it has not had its turn yet."""


class Brakes:
    """The peers for which a worker's brake is on, and the messages of theirs that are tried meanwhile."""

    def __init__(self, brake: Brake | None) -> None:
        self.peers: dict[str, Tried | None] = {}
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
        """It went off for a peer: the peer's waiting messages go on."""
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

    def holds_back(self, park: object, peer: str) -> bool:
        """Say whether a handler must wait: it is on for the peer, and something else is being tried."""
        return peer in self.peers and not self.tries(park, peer)

    def tries(self, park: object, peer: str) -> bool:
        """Say whether an item of this park is the one of a peer that may be handled now."""
        tried = self.peers.get(peer)
        return tried is not None and park is tried.park

    def look(self, now: int) -> None:
        """Count successes only as long as some handlers fail."""
        if self.is_counting and self._failures is not None:
            self.is_counting = not self._failures.is_over(now)

    def take_released(self) -> bool:
        """Say, once, whether it went off for a peer: the peer's waiting messages go on."""
        released, self._released = self._released, False
        return released

    def is_due(self, now: int) -> bool:
        """Say whether it is time to try the next of each peer; if so the next time is a pause later."""
        if not self.peers or now < self.next_probe:
            return False
        self.next_probe = now + self._pause
        return True

    def missing(self, now: int) -> set[str]:
        """Peers of which nothing is being tried."""
        missing = {peer for peer, tried in self.peers.items() if tried is None or not tried.is_tried(now)}
        self.peers.update(dict.fromkeys(missing))
        return missing

    def try_next(self, peer: str, tried: Tried) -> None:
        """This is tried of a peer from now on."""
        self.peers[peer] = tried

    def take_turn(self) -> int:
        """Draw a number that grows: each time another partition comes first."""
        self._turn += 1
        return self._turn - 1

    def over(self, peer: str) -> None:
        """The tried message of a peer succeeded."""
        del self.peers[peer]
        self._released = True
        if not self.peers:
            self.next_probe = NEVER
