"""The brake of a worker. While the brake is on for a peer, the peer's messages wait. They are tried one at a time, until one is handled."""

from __future__ import annotations

from datetime import timedelta
from typing import Protocol

from conversations.brake import Failures
from conversations.config import Brake
from conversations.protocol.endpoint import NEVER


class Tried(Protocol):
    """A peer's message that is being tried while the brake is on for the peer."""

    @property
    def park(self) -> object:
        """The park of the message."""

    def is_tried(self, now: int) -> bool:
        """Return True if the message has not had its turn yet."""


class Brakes:
    """The peers for which a worker's brake is on, and for each peer the message that is being tried."""

    def __init__(self, brake: Brake | None) -> None:
        self.peers: dict[str, Tried | None] = {}
        """The peers for which the brake is on, each with the message of the peer that is being tried. None: no message is being tried."""
        self.next_probe = NEVER
        """Time at which the next messages are tried; NEVER if the brake is not on for any peer."""
        self.is_counting = False
        """True while handlers that succeed are counted. They are counted only if a handler has failed a short time ago."""
        self.well: dict[str, bool] = {}
        """For each peer, True if the last handler in the peer's dialogs succeeded. At most ``Failures.PEERS`` peers are remembered."""
        self._failures = Failures(brake) if brake is not None else None
        self._pause = (brake.probe if brake is not None else timedelta(0)) // timedelta(microseconds=1)
        self._released = False
        """True if the brake went off for a peer whose waiting messages are not released yet."""
        self._turn = 0

    @property
    def on(self) -> bool:
        """True while the brake is on for at least one peer."""
        return bool(self.peers)

    @property
    def others_go_on(self) -> bool:
        """True if there is a peer for which the brake is off, and the last handler in this peer's dialogs succeeded.

        Then the running release of the service can handle messages. So this release is not the cause of the failures in the dialogs of
        other peers.
        """
        return any(is_well and peer not in self.peers for peer, is_well in self.well.items())

    def hear(self, peer: str, *, is_well: bool) -> None:
        """Note whether the last handler in a peer's dialogs succeeded."""
        if peer not in self.well and len(self.well) >= Failures.PEERS:
            del self.well[next(iter(self.well))]
        self.well[peer] = is_well

    def failed(self, peer: str, dialog: bytes, now: int) -> int:
        """Count a failure. Return the number of failed dialogs if this failure puts the brake on for the peer, else 0."""
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
        """Return True if a handler must wait: the brake is on for the peer, and the message being tried is not in ``park``."""
        return peer in self.peers and not self.tries(park, peer)

    def tries(self, park: object, peer: str) -> bool:
        """Return True if the peer's message that is being tried is in this park. Then this message may be handled now."""
        tried = self.peers.get(peer)
        return tried is not None and park is tried.park

    def look(self, now: int) -> None:
        """Stop counting successes when no handler has failed for a while."""
        if self.is_counting and self._failures is not None:
            self.is_counting = not self._failures.is_over(now)

    def take_released(self) -> bool:
        """Return True if the brake went off for a peer since the last call. Then the peer's waiting messages must be released now."""
        released, self._released = self._released, False
        return released

    def is_due(self, now: int) -> bool:
        """Return True if it is time to try the next message of each peer. If so, set the next time, one pause later."""
        if not self.peers or now < self.next_probe:
            return False
        self.next_probe = now + self._pause
        return True

    def missing(self, now: int) -> set[str]:
        """Return the peers for which the brake is on and no message is being tried; forget the earlier messages of these peers."""
        missing = {peer for peer, tried in self.peers.items() if tried is None or not tried.is_tried(now)}
        self.peers.update(dict.fromkeys(missing))
        return missing

    def try_next(self, peer: str, tried: Tried) -> None:
        """Note which message of a peer is tried from now on."""
        self.peers[peer] = tried

    def take_turn(self) -> int:
        """Return a number that grows by one with each call. Because of it, each search for a message begins in another partition."""
        self._turn += 1
        return self._turn - 1

    def over(self, peer: str) -> None:
        """Turn the brake off for a peer whose tried message succeeded."""
        del self.peers[peer]
        self._released = True
        if not self.peers:
            self.next_probe = NEVER
