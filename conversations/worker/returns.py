"""Returns: what the peer of an ended dialog has not accepted becomes dead letters of this side.

It may be a gigabyte, for example if another cluster was away for the whole lifetime of the dialog. One transaction cannot have that much, and a worker
cannot have it in memory. So a step makes letters of a part, and the rest waits for the next steps:

    the dialog ends --> tombstone, letters of the first part --> letters of the next part --> ... --> event UNDELIVERED
                             |                                      ^
                             '-- a row (kind ``B``) while something is left: where the next part begins

A part and the new row are in one transaction, so a worker that goes on after a crash makes each letter once. Meanwhile the delayed envelopes of the dialog
stay: an ERROR for the peer leaves when all messages have come back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from conversations.protocol import letters, rows
from conversations.protocol.contract import END_OF_STREAM
from conversations.protocol.endpoint import prefix_of
from conversations.protocol.envelope import Kind, decode, encode_prefix
from conversations.protocol.events import ConversationId, Undelivered
from conversations.protocol.fences import Fence
from conversations.protocol.fragments import is_last
from conversations.protocol.identifiers import uuid_text
from conversations.protocol.returning import Returning
from conversations.protocol.unacknowledged import decode_tails
from conversations.protocol.waiting_row import decode_waiting
from conversations.worker import remaining
from conversations.worker.active import Active
from conversations.worker.letters import Leftover
from conversations.worker.partition import Partition
from conversations.worker.unacknowledged import Remaining, remaining_in

PART_BYTES = 1_000_000
"""Bytes of messages that a part may always have. It has more only while the step has room for further work."""


def give_back(partition: Partition, active: Active, *, told: bool) -> tuple[int, bool]:
    """Turn the messages that the peer has not accepted into dead letters of this side, because the dialog is over: all, or the first part of them.

    Return the number of the letters, and True if this side's END is dropped. A delayed END is dropped and counted, except one: an initiator
    that has ended may keep envelopes that this target did not accept. The END is the last word that it waits for. ``told`` is False after a
    cleanup, which tells the peer nothing.
    """
    endpoint = active.endpoint
    first = next(remaining.in_order(partition.transmission, partition.waiting, active), None)
    is_last_word = told and not endpoint.initiator and endpoint.fence is Fence.ANSWERED
    dropped = 0 if is_last_word else remaining.forget(partition.transmission, partition.waiting, active, Kind.END)
    for _ in range(dropped):
        endpoint.drop()
    if first is None:
        partition.unacknowledged.forget(active)
        remaining.forget(partition.transmission, partition.waiting, active, Kind.MESSAGE)
        return 0, dropped > 0
    keys = partition.unacknowledged.leave(active)
    part = _Part(partition, active.identity, Returning(
        min(first.number - 1, endpoint.acked), 0, endpoint.error.code if endpoint.error is not None else 0,
        endpoint.fence is not Fence.ANSWERED, partition.context.destinations.topic(endpoint.peer), active.out_key,
        # The dialog may have stopped keeping since.
        encode_prefix(replace(prefix_of(endpoint), resends=True)),
    ), keys)  # fmt: skip
    part.give_back()
    for _ in range(part.dropped):
        endpoint.drop()
    return part.returned, dropped > 0


def go_on(partition: Partition) -> None:
    """Give back a further part of what the ended dialogs have left, as the step's budget allows."""
    for own, row in list(partition.transmission.returning.items()):
        part = _Part(partition, own, row)
        part.give_back()
        if partition.knows(own):
            tombstone = partition.find(rows.other_side(own), "", "").tombstone
            if tombstone is not None:
                tombstone.came_back(part.returned, part.dropped)
                partition.outbox.write(rows.ENDPOINT + own, rows.encode_tombstone(tombstone))
        if partition.context.budget.is_read():
            return


class _Part:
    """The messages of one dialog that come back in one step."""

    __slots__ = ("_after", "_is_cut", "_is_full", "_keys", "_own", "_partition", "_row", "_size", "dropped", "returned")

    def __init__(self, partition: Partition, own: bytes, row: Returning, keys: list[bytes] | None = None) -> None:
        """Begin a part. ``keys`` are those of the rows of unacknowledged envelopes, if they are known."""
        self._partition, self._own, self._row, self._keys = partition, own, row, keys
        self._after = row.after
        self._is_cut = self._is_full = False
        self._size = 0
        self.returned = 0
        """Number of messages that are dead letters."""
        self.dropped = 0
        """Number of requests to the peer to end its side, which are no messages of the application."""

    def give_back(self) -> None:
        """Write the letters of the part, delete what is done, and note where the next part begins."""
        for it in remaining.whole(self._left()):
            self._size += len(it.value)
            if it.envelope.message_type == END_OF_STREAM:
                self.dropped += 1  # it asked the peer to end a dialog that is over
            elif it.envelope.kind is Kind.MESSAGE:
                self._letter(it)
        row = self._row._replace(after=self._after, returned=self._row.returned + self.returned)
        if self._is_full:
            self._partition.transmission.return_later(self._own, row)
        else:
            self._finish(row)

    def _letter(self, it: Remaining) -> None:
        partition, row = self._partition, self._row
        self.returned += 1
        item = Leftover(
            row.topic, partition.waiting.draw(), row.key, it.value, it.envelope,
            is_uncertain=row.is_uncertain and not it.row.startswith(rows.DELAYED), pieces=it.pieces,
        )  # fmt: skip
        partition.letters.dead_letter(item, letters.UNDELIVERABLE, code=row.code)

    def _finish(self, row: Returning) -> None:
        self._partition.transmission.has_returned(self._own, row.topic)
        if row.returned:
            silent = "the peer did not say which of them it has accepted"
            why = silent if row.is_uncertain else "the peer has not accepted them"
            conversation = ConversationId(uuid_text(self._own[:16]))
            self._partition.letters.event(Undelivered(conversation, row.returned, row.code, why))

    # -- reading --------------------------------------------------------------------------------------------

    def _left(self) -> Iterator[Remaining]:
        """Yield what is left, until the part is full: first the transmitted envelopes, then the delayed ones. Delete the rows that are done."""
        partition = self._partition
        for key, row in self._kept_rows():
            first, tails = int.from_bytes(key[-8:], "big"), partition.outbox.decoded(key, decode_tails, row)
            yield from self._taken(remaining_in(self._row.prefix, first, tails, self._after, key))
            if self._is_full:
                return
            partition.unacknowledged.drop_row(key, row)
        if self._own not in partition.waiting.delayed.of:
            return
        for key, row in partition.outbox.scan(rows.DELAYED + self._own):
            kept = partition.outbox.decoded(key, decode_waiting, row)
            if decode(kept.value).kind is Kind.MESSAGE:
                yield from self._taken(remaining.in_row(partition.transmission, key, kept), is_delayed=True)
                if self._is_full:
                    return
                partition.transmission.drop(self._own, key, row)

    def _kept_rows(self) -> Iterator[tuple[bytes, bytes]]:
        partition = self._partition
        if self._keys is None:
            yield from partition.outbox.scan(rows.UNACKNOWLEDGED + self._own)
            return
        for (
            key
        ) in self._keys:  # the first part belongs to every dialog that ends, and a scan looks at all rows of the step
            row = partition.outbox.read_once(key)
            if row is not None:
                yield key, row

    def _taken(self, found: Iterator[Remaining], *, is_delayed: bool = False) -> Iterator[Remaining]:
        """Yield the envelopes of a row that come after the last one that is done, until the part is full. A message is never cut by it.

        A delayed row is deleted when it is done. So it says itself that it is not done, also if a queue has refused it again and it comes back in front.
        """
        for it in found:
            if it.number > self._after:
                if not self._is_cut and self._size >= PART_BYTES and self._partition.context.budget.is_read():
                    self._is_full = True
                    return
                self._is_cut = not is_last(it.envelope)
                if not is_delayed:
                    self._after = it.number
                yield it
