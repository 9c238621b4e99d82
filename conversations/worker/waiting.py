"""Records that are read and not handled, kept as rows so that the partition's positions can move past them.

A step commits the positions of everything it read. What it read and did not finish, because a handler is slow, because a
message before it is missing, or because its destination takes nothing, is kept as a row in the same transaction:

* **Waiting rows** have numbers, and a restart puts their records back into their lanes in the order of the numbers. New rows go
  behind all others. One goes in front: a record that was held, and came to the head of its lane when the gap before it closed.
* **Held rows** are messages before which one is missing, by dialog and sequence number.
* **Delayed rows** are envelopes of this side that their destination cannot take now. They draw from the same numbers, and so do
  letters of records that never had an offset.

The bytes are counted here as rows come and go, so that a limit can be compared with them at any time.
"""

from __future__ import annotations

from conversations.protocol import rows
from conversations.worker.active import NO_ROW, Recorded
from conversations.worker.outbox import Outbox
from conversations.worker.records import encode_item

FIRST_ROW = 1 << 40
"""Number of the first waiting row: rows are added behind, and now and then in front."""


class Kept:
    """Bytes of rows by endpoint, and in all."""

    __slots__ = ("bytes", "of")

    def __init__(self) -> None:
        self.of: dict[bytes, int] = {}
        self.bytes = 0

    def __len__(self) -> int:
        return len(self.of)

    def count(self, own: bytes, size: int) -> None:
        """Account for a row of this size that was written, or deleted when ``size`` is negative."""
        self.bytes += size
        left = self.of.pop(own, 0) + size
        if left > 0:
            self.of[own] = left

    def forget(self, own: bytes) -> None:
        """Account for the deletion of all rows of an endpoint."""
        self.bytes -= self.of.pop(own, 0)


class Delayed(Kept):
    """The same of envelopes that wait for their destination, which are found by it."""

    __slots__ = ("to",)

    def __init__(self) -> None:
        super().__init__()
        self.to: dict[str, dict[bytes, None]] = {}
        """Topics, and the endpoints that have something for them; some of those may have none any more."""

    def add(self, own: bytes, topic: str, size: int) -> None:
        """Account for a row that was written."""
        self.count(own, size)
        self.wait(own, topic)

    def wait(self, own: bytes, topic: str) -> None:
        """Let an endpoint wait for a topic."""
        self.to.setdefault(topic, {})[own] = None


class Waiting:
    """The rows of one partition that keep records, and how many bytes they are."""

    __slots__ = ("_first", "_next", "_outbox", "bytes", "delayed", "held")

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._first = self._next = FIRST_ROW
        self.bytes = 0
        """Of the records in waiting rows."""
        self.held, self.delayed = Kept(), Delayed()

    @property
    def added(self) -> int:
        """How many numbers were drawn since the first row there ever was."""
        return self._next - FIRST_ROW

    def draw(self) -> int:
        """Draw the number of a row behind all others."""
        number = self._next
        self._next = number + 1
        return number

    # -- waiting rows -------------------------------------------------------------------------------------

    def put_behind(self, item: Recorded) -> None:
        """Keep an item behind all others."""
        self._put(item, self.draw())

    def put_in_front(self, item: Recorded) -> None:
        """Keep an item in front of all others."""
        self._first -= 1
        self._put(item, self._first)

    def _put(self, item: Recorded, number: int) -> None:
        item.take_row(number)
        self.bytes += len(item.value)
        self._write(item)

    def update(self, item: Recorded) -> None:
        """Write the row of an item again if the item changed: its handler began, or failed."""
        if item.row != NO_ROW and item.is_changed:
            self._write(item)

    def drop(self, item: Recorded) -> None:
        """Delete the row of an item that is settled, or kept elsewhere."""
        self._outbox.write(_key(item), None)
        self.bytes -= len(item.value)
        item.take_row(NO_ROW)

    def _write(self, item: Recorded) -> None:
        item.saved()
        self._outbox.write(_key(item), encode_item(item))

    # -- after a restart ----------------------------------------------------------------------------------

    def restore(self, item: Recorded, number: int) -> None:
        """Account for a row that was there before a restart; the item is made of it."""
        self._next = max(self._next, number + 1)
        self._first = min(self._first, number)
        self.bytes += len(item.value)
        item.take_row(number)
        item.saved()

    def count_kept(self) -> None:
        """Account for the held and delayed rows of before a restart."""
        for key, row in self._outbox.store.scan(rows.HELD):
            self.held.count(key[1:18], len(row))
        for key, row in self._outbox.store.scan(rows.DELAYED):
            self.delayed.add(key[1:18], rows.topic_of(row), len(row))
            self._next = max(self._next, int.from_bytes(key[-8:], "big") + 1)

    # -- held and delayed rows ----------------------------------------------------------------------------

    def hold(self, own: bytes, number: int, row: bytes) -> None:
        """Keep a message before which one is missing."""
        self._outbox.write(rows.numbered(rows.HELD, own, number), row)
        self.held.count(own, len(row))

    def held_numbers(self, own: bytes) -> set[int]:
        """Sequence numbers of the messages of a dialog that are held."""
        return {int.from_bytes(key[-8:], "big") for key, _ in self._outbox.scan(rows.HELD + own)}

    def take_held(self, own: bytes, number: int) -> rows.WaitingRow | None:
        """Take out the row of a message that was held.

        Raises:
            StateDamaged: it cannot be understood.
        """
        key = rows.numbered(rows.HELD, own, number)
        row = self._outbox.read(key)
        if row is None:
            return None
        self._outbox.write(key, None)
        self.held.count(own, -len(row))
        return self._outbox.decoded(key, rows.decode_waiting, row)

    def delay(self, own: bytes, topic: str, row: bytes) -> None:
        """Keep an envelope until its destination takes records again."""
        self._outbox.write(rows.numbered(rows.DELAYED, own, self.draw()), row)
        self.delayed.add(own, topic, len(row))


def _key(item: Recorded) -> bytes:
    """Key of the row that keeps a waiting item."""
    return rows.WAITING + item.row.to_bytes(8, "big")
