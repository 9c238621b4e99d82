"""A drain: parked dialogs whose turn has come, and how many of their records one step takes up.

Each step takes up a limited number of records, a slice. So no transaction is too large, even after weeks with the queue off. A dialog gets a
share of the slice, and the step handles the records of the share one after the other. So the step writes the rows of the dialog one time for all of them.
A dialog with more records than its share waits behind the others, so a long queue does not stop a short one. If no dialog waits, it gets another share.

The records of a share are read together, because a scan takes a fourth of the time of single reads. Only the head of a parked dialog is ever written
again, and the head is taken out of the share as soon as it is the head. So what was read ahead cannot be old.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from conversations.protocol.envelope import Envelope, Known, decode, decode_next
from conversations.worker.active import Park
from conversations.worker.outbox import Outbox

SLICE = 1_000
"""Maximum number of parked records that one step of a partition takes up, without those that operators give back in the step."""
SHARE = 16
"""Maximum number of records in a share. With a larger share, fewer dialogs are taken up in a step, and more of their handlers cannot wait at the same time."""
AHEAD = 1_024
"""Maximum number of bytes that are read ahead, on average for each record of a share."""


@dataclass(slots=True, eq=False)
class _Share:
    park: Park
    left: int
    """Number of records that the present slice may still take up."""
    ahead: dict[bytes, bytes]
    """Rows of the next records, by their keys, as far as they were read ahead."""
    known: Known | None = None
    """Prefix of the last record, which is nearly always that of the next one."""


class Drain:
    """The parked dialogs of one partition that wait for the next slice, and the shares of the present slice."""

    __slots__ = ("_left", "_outbox", "_shares", "_waiting")

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._waiting = deque[tuple[bytes, Park]]()
        self._shares: dict[bytes, _Share] = {}
        """By the identity of its endpoint, the share of a dialog."""
        self._left = 0
        """Number of records of the present slice that are in no share."""

    @property
    def waits(self) -> bool:
        """True if dialogs wait for the next slice."""
        return bool(self._waiting)

    def begin(self) -> None:
        """Begin a slice."""
        self._left = SLICE
        self._shares.clear()

    def next(self) -> tuple[bytes, Park] | None:
        """Return the dialog that has waited longest, and its park; None if nobody waits, or no record of the slice is left for it."""
        if not self._left or not self._waiting or self._waiting[0][0] in self._shares:
            return None
        return self._waiting.popleft()

    def take(self, own: bytes, found: Park, head: bytes) -> bool:
        """Return True if the present slice takes up the next record of a dialog. ``head`` is the key of its row."""
        share = self._shares.get(own)
        if share is None or share.park is not found or not (share.left or self._waiting):
            if not self._left:
                return False
            count = min(found.row.next - found.row.first, SHARE, self._left)
            self._left -= count
            share = self._shares[own] = _Share(found, count, self._outbox.read_ahead(head, count, count * AHEAD))
        if not share.left:
            return False
        share.left -= 1
        return True

    def read(self, own: bytes, found: Park, head: bytes) -> bytes | None:
        """Return the row of the head of a parked dialog; None if there is no such row."""
        share = self._shares.get(own)
        ahead = share.ahead.pop(head, None) if share is not None and share.park is found else None
        return self._outbox.read(head) if ahead is None else ahead

    def decoded(self, own: bytes, found: Park, value: bytes) -> Envelope:
        """Decode the envelope of the head of a parked dialog.

        Raises:
            UndecodableRecord: the bytes are not an envelope.
        """
        share = self._shares.get(own)
        if share is None or share.park is not found:
            return decode(value)
        envelope, share.known = decode_next(value, share.known)
        return envelope

    def put_off(self, own: bytes, found: Park) -> None:
        """Let a dialog wait for the next slice, behind the other dialogs. What was read ahead is forgotten, because an operator may edit the head."""
        share = self._shares.get(own)
        if share is not None:
            share.ahead.clear()
        self._waiting.append((own, found))
