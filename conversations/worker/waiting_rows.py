"""Waiting: records that are not finished are kept as rows, so that the partition's positions can move past them.

A step commits the positions behind all records that it has routed. Records that are not finished are kept as rows in the same transaction.
There are five kinds of rows:

* **Waiting rows** keep records whose turn has not come, or whose handler has not finished. The rows have numbers, and a restart puts the
  records back into their lanes in the order of these numbers. New rows go behind all others, with one exception. When the gap before
  a held record has closed, the record comes to the head of its lane. Then its row goes in front of all others.
* **Held rows** keep messages that arrived early: a message before them is missing. Their keys have the dialog and the sequence number.
* **Fragments** are kept as rows until the message that they belong to is settled (``Fragments``).
* **Delayed rows** keep envelopes of this side that their destination cannot take now. These rows and the waiting rows get their numbers
  from the same sequence. Letters of records that never had an offset also get numbers from this sequence.

The bytes are counted whenever a row is written or deleted, so that they can be compared with a limit at any time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from conversations.protocol import rows
from conversations.protocol.envelope import Envelope, decode, encode
from conversations.protocol.fragments import Begun, begun_with, is_last
from conversations.protocol.referred import account_of
from conversations.protocol.waiting_row import WaitingRow, decode_waiting
from conversations.worker.active import NO_ROW, Active, Arrival, Recorded
from conversations.worker.growing import Growing
from conversations.worker.joining import join
from conversations.worker.outbox import Outbox
from conversations.worker.records import arrival_of, encode_item

FIRST_ROW = 1 << 40
"""Number of the first waiting row. It is far from 0, because rows are added in front as well."""


class Kept:
    """Counts bytes of rows, by endpoint and in total."""

    __slots__ = ("bytes", "of")

    def __init__(self) -> None:
        self.of: dict[bytes, int] = {}
        self.bytes = 0

    def __len__(self) -> int:
        return len(self.of)

    def count(self, own: bytes, size: int) -> None:
        """Account for a row of ``size`` bytes that was written. A negative ``size`` is for a row that was deleted."""
        self.bytes += size
        left = self.of.pop(own, 0) + size
        if left > 0:
            self.of[own] = left

    def forget(self, own: bytes) -> None:
        """Account for the deletion of all rows of an endpoint."""
        self.bytes -= self.of.pop(own, 0)


class Delayed(Kept):
    """Counts bytes of delayed rows, and finds the endpoints that wait for a destination."""

    __slots__ = ("to",)

    def __init__(self) -> None:
        super().__init__()
        self.to: dict[str, OrderedDict[bytes, None]] = {}
        """For each topic, the endpoints with delayed envelopes for it. The envelopes of some endpoints may have been released already.

        An ``OrderedDict`` gives its first key in the same time however many keys were taken from it before; a ``dict`` does not.
        """

    def add(self, own: bytes, topic: str, size: int) -> None:
        """Account for a row that was written."""
        self.count(own, size)
        self.wait(own, topic)

    def wait(self, own: bytes, topic: str) -> None:
        """Let an endpoint wait for a topic."""
        waiting = self.to.get(topic)
        if waiting is None:
            waiting = self.to[topic] = OrderedDict()
        waiting[own] = None


class Fragments:
    """The fragments that one partition keeps, and the number of their bytes.

    first fragment --keep--> row | ... | last fragment --whole--> one message for its handler --forget--> no rows

    The messages of a dialog are handled one after the other. So a dialog has the fragments of at most one message here. The fragments of
    later messages wait in lanes, or in held or parked rows, like any message. The last fragment is never a row of this kind: it stands for its message,
    wherever the message waits. So a message that fails is parked with its last fragment, and is joined anew for each attempt.
    """

    __slots__ = ("_growing", "_outbox", "begun", "bytes")

    def __init__(self, outbox: Outbox, growing: Growing) -> None:
        self._outbox = outbox
        self._growing = growing
        self.begun: dict[bytes, Begun] = {}
        """By the identity of the dialog, the message of which fragments are here."""
        self.bytes = 0
        """Bytes of the bodies in all rows."""

    def restore(self) -> None:
        """Account for the rows from before a restart."""
        for key, row in self._outbox.store.scan(rows.FRAGMENT):
            envelope = decode(self._outbox.decoded(key, decode_waiting, row).value)
            self._count(key[1 : 1 + rows.IDENTITY_SIZE], envelope)

    def misfit(self, item: Arrival) -> str:
        """Return why a message or fragment must not come next in its dialog; "" if it may."""
        begun, envelope = self.begun.get(item.active.identity), item.envelope
        if item.pieces > 1:
            return ""
        if begun is not None:
            return begun.misfit(envelope)
        return f"Fragment {envelope.fragment} came without the fragments before it." if envelope.fragment else ""

    def size(self, item: Arrival) -> int:
        """Return the bytes of the body of a fragment's message so far, with this fragment."""
        begun = self.begun.get(item.active.identity)
        return len(item.envelope.body) + (0 if begun is None else begun.bytes)

    def keep(self, item: Arrival) -> None:
        """Keep a fragment, which is not the last one, until its message is settled."""
        own = item.active.identity
        self._outbox.write(rows.numbered(rows.FRAGMENT, own, item.envelope.seq), encode_item(item))
        self._count(own, item.envelope)
        self._growing.add(own, item.envelope)

    def join(self, item: Arrival) -> None:
        """Make the last fragment of a message stand for the whole message."""
        if item.pieces == 1:
            body = self._growing.finish(item.active.identity, item.envelope)
            item.assemble(self._whole(item.active, item.envelope, body), item.envelope.fragments)

    def value_of(self, item: Arrival) -> tuple[bytes, int]:
        """Return the bytes of an item for its dead letter: the envelope of the whole message, if its fragments are here.

        The second result is the number of fragments in them.
        """
        if item.pieces > 1:
            return encode(item.envelope), item.pieces
        begun = self.begun.get(item.active.identity)
        if (
            begun is None
            or item.envelope.fragments == 1
            or not (is_last(item.envelope) and begun.misfit(item.envelope) == "")
        ):
            return item.value, 1
        return encode(self._whole(item.active, item.envelope)), begun.fragments

    def forget(self, active: Active, number: int) -> None:
        """Delete the rows of a message that is settled. ``number`` is the number of its last fragment."""
        begun = self.begun.get(active.identity)
        if begun is not None and begun.last == number:
            self._drop(active, begun)

    def give_up(self, active: Active) -> list[Arrival]:
        """Delete the fragments of a message that is not whole, because its dialog is over. Return those that only this side has.

        If the peer keeps what is not acknowledged as a whole, its fragments count as not accepted, and are left to the peer.
        """
        begun = self.begun.get(active.identity)
        if begun is None or active.endpoint.inbound.has(begun.last):
            return []
        numbers = begun.numbers
        last = decode(self._row(active, numbers[-1]).value)
        left_to_peer = last.prefix.resends and active.endpoint.inbound.give_back(last.seq, len(numbers))
        arrived = [] if left_to_peer else [arrival_of(active, row) for row in self._rows(active, begun)]
        self._drop(active, begun)
        return arrived

    def stop(self) -> None:
        """Forget the body that grows, because the partition is gone."""
        for own in self.begun:
            self._growing.forget(own)

    # -- inside -------------------------------------------------------------------------------------------

    def _count(self, own: bytes, envelope: Envelope) -> None:
        self.begun[own] = (self.begun.get(own) or begun_with(envelope)).grown(envelope)
        self.bytes += len(envelope.body)

    def _whole(self, active: Active, last: Envelope, grown: bytes | None = None) -> Envelope:
        begun = self.begun[active.identity]
        if grown is None or len(grown) != begun.bytes + len(last.body):
            grown = join(chain(self._bodies(active, begun), (last.body,)))
        return replace(last, body=grown, fragment=0, fragments=1)

    def _bodies(self, active: Active, begun: Begun) -> Iterator[bytes]:
        # A function, because a compiled generator expression is a list: it takes as much memory as the message.
        for row in self._rows(active, begun):
            yield decode(row.value).body

    def _rows(self, active: Active, begun: Begun) -> Iterator[WaitingRow]:
        # One row after the other, because all of them take as much memory as the message.
        for number in begun.numbers:
            yield self._row(active, number)

    def _row(self, active: Active, number: int) -> WaitingRow:
        key = rows.numbered(rows.FRAGMENT, active.identity, number)
        return self._outbox.decoded(key, decode_waiting, self._outbox.read_once(key) or b"")

    def _drop(self, active: Active, begun: Begun) -> None:
        for number in begun.numbers:
            self._outbox.write(rows.numbered(rows.FRAGMENT, active.identity, number), None)
        self.bytes -= begun.bytes
        self._growing.forget(active.identity)
        del self.begun[active.identity]


class Waiting:
    """The rows of one partition that keep records, and the number of their bytes."""

    __slots__ = ("_begin", "_first", "_next", "_outbox", "bytes", "delayed", "fragments", "held", "most_held")

    def __init__(self, outbox: Outbox, most_held: int, growing: Growing) -> None:
        self._outbox = outbox
        self.most_held = most_held
        """The limit ``held_messages`` of a dialog, as a number that compiled code reads directly."""
        self._first = self._begin = self._next = FIRST_ROW
        self.bytes = 0
        """Bytes of the records in waiting rows."""
        self.held, self.delayed = Kept(), Delayed()
        self.fragments = Fragments(outbox, growing)

    @property
    def drawn(self) -> int:
        """How many numbers this owner has drawn for rows behind all others."""
        return self._next - self._begin

    def open(self, now: int) -> None:
        """Begin with numbers that no earlier owner has drawn: letters have them, and operators tell letters apart by them.

        A number for each microsecond of the time before are more than an owner can draw.
        """
        self._begin = self._next = max(self._next, FIRST_ROW + now)

    def draw(self) -> int:
        """Draw the number of a row behind all others."""
        number = self._next
        self._next = number + 1
        return number

    def draw_in_front(self) -> int:
        """Draw the number of a row in front of all others."""
        self._first -= 1
        return self._first

    # -- waiting rows -------------------------------------------------------------------------------------

    def put_behind(self, item: Recorded) -> None:
        """Keep the record of an item in a row behind all others."""
        self._put(item, self.draw())

    def put_in_front(self, item: Recorded) -> None:
        """Keep the record of an item in a row in front of all others."""
        self._put(item, self.draw_in_front())

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
        """Account for a row from before a restart. The item was made from this row."""
        self._next = max(self._next, number + 1)
        self._first = min(self._first, number)
        self.bytes += len(item.value)
        item.take_row(number)
        item.saved()

    def count_kept(self) -> None:
        """Account for the held and delayed rows from before a restart."""
        for key, row in self._outbox.store.scan(rows.HELD):
            self.held.count(key[1:18], len(row))
        for key, row in self._outbox.store.scan(rows.DELAYED):
            self.delayed.add(key[1:18], *account_of(row))
            number = int.from_bytes(key[-8:], "big")
            self._next, self._first = max(self._next, number + 1), min(self._first, number)

    # -- held and delayed rows ----------------------------------------------------------------------------

    def hold(self, own: bytes, number: int, row: bytes) -> None:
        """Keep a message that arrived early: a message before it is missing."""
        self._outbox.write(rows.numbered(rows.HELD, own, number), row)
        self.held.count(own, len(row))

    def held_numbers(self, own: bytes) -> set[int]:
        """Return the sequence numbers of the held messages of a dialog."""
        return {int.from_bytes(key[-8:], "big") for key, _ in self._outbox.scan(rows.HELD + own)}

    def take_held(self, own: bytes, number: int) -> WaitingRow | None:
        """Delete and return the row of a held message; None if there is none.

        Raises:
            StateDamaged: the row cannot be decoded.
        """
        key = rows.numbered(rows.HELD, own, number)
        row = self._outbox.read(key)
        if row is None:
            return None
        self._outbox.write(key, None)
        self.held.count(own, -len(row))
        return self._outbox.decoded(key, decode_waiting, row)

    def delayed_rows(self, own: bytes, most: int | None = None) -> Iterator[tuple[bytes, bytes, Envelope]]:
        """Yield the delayed rows of an endpoint, at most ``most`` of them: each with its key and its envelope.

        Raises:
            StateDamaged: a row cannot be decoded.
        """
        for key, row in self._outbox.scan(rows.DELAYED + own, most):
            yield key, row, decode(self._outbox.decoded(key, decode_waiting, row).value)

    def delayed_row(self, key: bytes) -> WaitingRow:
        """Return a delayed row, which may be large.

        Raises:
            StateDamaged: the row cannot be decoded.
        """
        return self._outbox.decoded(key, decode_waiting, self._outbox.read_once(key) or b"")

    def delay(self, own: bytes, row: bytes, *, in_front: bool = False) -> None:
        """Keep a delayed row until its destination takes records again: behind the other delayed envelopes of its dialog, or in front of them."""
        number = self.draw_in_front() if in_front else self.draw()
        self._outbox.write(rows.numbered(rows.DELAYED, own, number), row)
        self.delayed.add(own, *account_of(row))


def _key(item: Recorded) -> bytes:
    """Return the key of the row that keeps a waiting item."""
    return rows.WAITING + item.row.to_bytes(8, "big")
