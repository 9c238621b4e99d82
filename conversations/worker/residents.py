"""Residents: the endpoints of a partition that are in memory. Idle groups leave memory when there are too many endpoints."""

from __future__ import annotations

from collections.abc import Callable, Collection

from conversations.config import Limits
from conversations.machine import memory
from conversations.worker.active import Active, Lane

ENDPOINT_BYTES = 3_000
"""Bytes of memory that an endpoint counts as, with its lane and its entries in tables."""
CACHED_SHARE = 8
"""If ``cached_bytes`` is 0, the memory of the machine is divided by this number."""


def most_of(limits: Limits) -> int:
    """Return the maximum number of endpoints that a worker keeps decoded in memory."""
    return max(1, (limits.cached_bytes or memory() // CACHED_SHARE) // ENDPOINT_BYTES)


class Residents(dict[bytes, Active]):
    """Endpoints in memory. The key of an endpoint is the part of the peer's envelopes from ``IDENTITY_AT`` to ``IDENTITY_END``: conversation id and sender's side."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        super().__init__()
        self._left = 0
        """Number of endpoints that stayed in memory when room was last made."""

    def make_room(
        self, limit: int, leave: Callable[[Lane], None], *, busy: Callable[[], Collection[Lane]], committed: bool
    ) -> None:
        """If there are more endpoints than ``limit``, remove idle groups, and call ``leave`` with the lane of each removed group.

        ``busy`` returns the lanes that must stay. It is called only if some must leave.

        A group leaves as a whole. Otherwise it could get a second lane, and two of its handlers could run at the same time.

        A step that committed nothing may have loaded endpoints from their rows, for example to try a destination that is still blocked.
        After a step without a commit, room is made only if there are more endpoints in memory than last time. The endpoints that could not
        leave last time cannot leave now.
        """
        self._left = min(self._left, len(self))
        if len(self) <= limit or (not committed and len(self) == self._left):
            return
        lanes: dict[Lane, list[bytes]] = {}
        stay = {*busy()}
        for peer, active in self.items():
            lanes.setdefault(active.lane, []).append(peer)
            if active.exists and active.endpoint.ack_at < 1 << 61:
                stay.add(active.lane)
        for lane, peers in lanes.items():
            if len(self) <= limit * 3 // 4:
                break
            if lane in stay or lane.has_items or lane.run is not None:
                continue
            for peer in peers:
                del self[peer]
            leave(lane)
        self._left = len(self)
