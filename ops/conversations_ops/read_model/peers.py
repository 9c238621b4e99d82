"""Tells from the file of the read model with which peers a service has open dialogs, and what stops them there."""

from __future__ import annotations

from typing import NamedTuple

from conversations_ops.read_model.file import File
from conversations_ops.read_model.queues import queues


class PeerWait(NamedTuple):
    """The open dialogs of a service with one peer."""

    peer: str
    open: int
    """Number of open sides at the service."""
    kept_back: int
    """Number of these dialogs with an envelope that the queue of the peer does not take now."""
    is_off: bool
    """True if the queue of a partition of the peer is off."""
    holds: bool
    """True if the peer holds a failed message of such a dialog until an operator decides."""

    @property
    def stalls(self) -> bool:
        """True if something at the peer keeps such dialogs from going on."""
        return bool(self.kept_back or self.is_off or self.holds)


def peer_waits(file: File, service: str) -> list[PeerWait]:
    """Return the peers, other than the service itself, with which a service has open dialogs.

    Raises:
        LogError: the file cannot be read.
    """
    with file.explained():
        sums = file.connection.execute(_SUMS, (service, service)).fetchall()
    return [
        PeerWait(peer, count, kept_back, any(it.off for it in queues(file, peer)), _holds(file, peer, service))
        for peer, count, kept_back in sums
    ]


_SUMS = "SELECT peer, sum(open), sum(kept_back) FROM sums WHERE service = ? AND peer <> ? GROUP BY peer ORDER BY sum(open) DESC, peer"
_HOLDS = """
SELECT EXISTS (SELECT 1 FROM parked INDEXED BY parked_for_a_person WHERE service = ? AND due IS NULL AND NOT queue_off AND peer = ?)
"""


def _holds(file: File, peer: str, service: str) -> bool:
    with file.explained():
        ((found,),) = file.connection.execute(_HOLDS, (peer, service))
    return bool(found)
