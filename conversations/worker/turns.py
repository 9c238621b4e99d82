"""Turns: which parked dialogs a step takes up, and how many of their records.

Each step takes up a limited number of records, a slice. So no transaction is too large, even after weeks with the queue off. A dialog gets a
share of the slice, and the step handles the records of the share one after the other. So the step writes the rows of the dialog one time for all of them.
A dialog with more records than its share waits behind the other dialogs that go on. A dialog that has just become due does not wait behind those: both kinds have
their turns alternately. So a long queue does not stop a short one. If no dialog waits, a dialog gets a further share.

The records of a share are read together, because one scan is faster than many reads. Only the head of a parked dialog is ever written again. Each change of
a head is preceded by a read of it, and a read takes the row out of the share. So what was read ahead is never older than the row.
"""

from __future__ import annotations

from collections import deque

from conversations.protocol import rows
from conversations.protocol.envelope import Envelope, KnownPrefix, decode, decode_next
from conversations.worker.active import Park
from conversations.worker.outbox import Outbox

SLICE = 1_000
"""Maximum number of parked records that one step of a partition takes up, without those that operators give back in the step."""
SHARE = 32
"""Maximum number of records in a share."""
ROW_BYTES = 1_024
"""Maximum number of bytes that are read ahead, on average for each record of a share. The first record may be larger."""


class Share:
    """The records of one dialog that the present slice takes up.

    Args:
        left: number of records that the slice may still take up.
        ahead: rows of the next records, by their keys, as far as they were read ahead.
    """

    __slots__ = ("_ahead", "_known", "left")

    def __init__(self, left: int, ahead: dict[bytes, bytes]) -> None:
        self.left = left
        self._ahead = ahead
        self._known: KnownPrefix | None = None
        """Prefix of the last record, which is nearly always the prefix of the next one."""

    def take(self) -> bool:
        """Return True if a record is left, and take it."""
        if not self.left:
            return False
        self.left -= 1
        return True

    def read(self, head: bytes) -> bytes | None:
        """Return a row that was read ahead, once."""
        return self._ahead.pop(head, None)

    def decoded(self, value: bytes) -> Envelope:
        """Decode the envelope of a record.

        Raises:
            UndecodableRecord: the bytes are not an envelope.
        """
        envelope, self._known = decode_next(value, self._known)
        return envelope


class Turns:
    """The parked dialogs of one partition that wait for their turn, and the shares of the present slice.

    Args:
        outbox: the rows of the partition.
        concurrency: number of handlers that may wait at the same time. A slice has records of twice as many dialogs, if so many are due.
    """

    __slots__ = ("_due", "_going_on", "_left", "_most", "_outbox", "_shares", "_was_due")

    def __init__(self, outbox: Outbox, concurrency: int) -> None:
        self._outbox = outbox
        self._most = max(1, min(SHARE, SLICE // (2 * concurrency)))
        self._due = deque[tuple[bytes, Park]]()
        """Dialogs that have become due, and have not had their first turn."""
        self._going_on = deque[tuple[bytes, Park]]()
        """Dialogs that have had a turn, and have more records."""
        self._was_due = False
        """True if the last turn was that of a dialog that had become due."""
        self._shares: dict[Park, Share] = {}
        self._left = 0
        """Number of records of the present slice that are in no share."""

    @property
    def waits(self) -> bool:
        """True if dialogs wait for their turn."""
        return bool(self._due or self._going_on)

    def begin(self) -> None:
        """Begin a slice."""
        self._left = SLICE
        self._shares.clear()

    def next(self) -> tuple[bytes, Park] | None:
        """Return the identity and the park of the dialog whose turn is next; None if nobody waits, or the slice has no records left."""
        if not self._left:
            return None
        waiting = self._due if self._due and not (self._was_due and self._going_on) else self._going_on
        if not waiting:
            return None
        self._was_due = waiting is self._due
        return waiting.popleft()

    def allot(self, own: bytes, found: Park, *, goes_on: bool) -> bool:
        """Return True if the present slice has a record for a dialog. Make its share first, if it has none.

        A share is one record if the head has failed before, because it may fail again, or if the dialog goes on from an earlier slice: then its handler is slow.

        Args:
            own: the identity of the dialog's endpoint.
            found: its park.
            goes_on: True if a record of the dialog has just been handled.
        """
        share = self._shares.get(found)
        if share is None or not (share.left or self.waits):
            if not self._left:
                return False
            one = found.row.failure or (goes_on and share is None)
            count = 1 if one else min(found.row.next - found.row.first, self._most, self._left)
            self._left -= count
            keys = [key_of(own, number) for number in range(found.row.first, found.row.first + count)]
            share = self._shares[found] = Share(count, self._outbox.read_ahead(keys, count * ROW_BYTES))
        return share.take()

    def put_off(self, own: bytes, found: Park, *, goes_on: bool) -> None:
        """Let a dialog wait for its turn, behind the other dialogs that have become due, or behind those that go on."""
        (self._going_on if goes_on else self._due).append((own, found))

    def read(self, found: Park, head: bytes) -> bytes | None:
        """Return the row of the head of a parked dialog; None if there is no such row."""
        share = self._shares.get(found)
        ahead = None if share is None else share.read(head)
        return self._outbox.read(head) if ahead is None else ahead

    def decoded(self, found: Park, value: bytes) -> Envelope:
        """Decode the envelope of the head of a parked dialog.

        Raises:
            UndecodableRecord: the bytes are not an envelope.
        """
        share = self._shares.get(found)
        return decode(value) if share is None else share.decoded(value)


def key_of(own: bytes, number: int) -> bytes:
    """Return the key of the row of a parked record."""
    return rows.numbered(rows.PARKED, own, number)
