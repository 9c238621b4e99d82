"""The endpoints of a partition that are in memory, and how they leave it when there are too many."""

from __future__ import annotations

from collections.abc import Callable, Collection

from conversations.worker.active import Active, Lane


class Residents(dict[bytes, Active]):
    """Endpoints by the bytes at ``IDENTITY`` in the peer's envelopes: conversation id and the sender's side."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        super().__init__()
        self._left = 0
        """How many were left when room was last made."""

    def make_room(self, limit: int, leave: Callable[[Lane], None], *, busy: Collection[Lane], committed: bool) -> None:
        """Keep so many at most, as far as they may leave memory: ``leave`` is told of each group that does.

        A group leaves as a whole: two lanes for one group would handle it twice at a time.

        Also where a step committed nothing: it may have looked at endpoints that are only in rows, as for a destination that is still not
        there. Nothing can leave that could not before, so without a commit it is only tried when there are more.
        """
        self._left = min(self._left, len(self))
        if len(self) <= limit or (not committed and len(self) == self._left):
            return
        lanes: dict[Lane, list[bytes]] = {}
        stay = {*busy}
        for peer, active in self.items():
            lanes.setdefault(active.lane, []).append(peer)
            if active.exists and active.endpoint.ack_at < 1 << 61:
                stay.add(active.lane)
        for lane, peers in lanes.items():
            if len(self) <= limit * 3 // 4:
                break
            if lane in stay or lane.items or lane.run is not None:
                continue
            for peer in peers:
                del self[peer]
            leave(lane)
        self._left = len(self)
