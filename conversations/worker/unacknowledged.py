"""Unacknowledged: an initiator keeps the envelopes that it has transmitted as rows, until its peer acknowledges them.

The rows answer three questions. What must be transmitted again, if the peer misses an envelope (RESEND)? What must be sent again on a new
dialog, if this dialog breaks (``renewals``)? What comes back to the application and to the operators, if there is no new dialog?

    transmit --> fresh envelopes of this step --collect--> one row of the dialog and step --acknowledged--> deleted

The rows have limits in bytes, for each dialog and for the partition. An envelope above a limit is transmitted, but not kept: its prefix says so
(``resends``), and from then on the receiver keeps the bytes of what it does not accept. The dialog keeps envelopes again as soon as
everything is acknowledged.

An envelope that is delayed has a delayed row instead (``transmission``), until it is transmitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from conversations.protocol import rows
from conversations.protocol.endpoint import prefix_of
from conversations.protocol.envelope import Envelope, Kind, decode, encode_prefix
from conversations.protocol.events import ConversationId, NotKept
from conversations.protocol.fragments import last_number
from conversations.protocol.identifiers import uuid_text
from conversations.protocol.sequencing import NONE
from conversations.protocol.unacknowledged import decode_tails, encode_tails
from conversations.worker.active import Active
from conversations.worker.context import Context
from conversations.worker.outbox import Outbox
from conversations.worker.sent import NOTHING_SENT, Sent, SentRow

ROW_BYTES: Final = 600_000
"""Bytes of envelopes after which a step begins a further row of a dialog. A row with one larger envelope is larger."""


class Remaining(NamedTuple):
    """An envelope that the peer has not acknowledged."""

    number: int
    value: bytes
    """The whole envelope."""
    envelope: Envelope
    row: bytes
    """Key of the row that keeps the envelope; empty for an envelope of this step."""
    pieces: int = 1
    """Number of fragments that ``envelope`` was joined from."""


class Unacknowledged:
    """The rows of unacknowledged envelopes of one partition, and the number of their bytes."""

    __slots__ = ("_context", "_outbox", "_tell", "bytes")

    def __init__(self, context: Context, outbox: Outbox, tell: Callable[[NotKept], None]) -> None:
        self._context = context
        self._outbox = outbox
        self._tell = tell
        self.bytes = 0
        """Bytes of the rows, and of the envelopes that this step keeps."""

    def count_kept(self) -> None:
        """Account for the rows from before a restart."""
        self.bytes = sum(len(row) for _, row in self._outbox.store.scan(rows.UNACKNOWLEDGED))

    # -- sending ------------------------------------------------------------------------------------------

    def make_room(self, active: Active, number: int, size: int) -> None:
        """Let the dialog stop keeping its envelopes, if a message of ``size`` bytes would exceed a limit.

        ``number`` is its first number. The message is transmitted now: all before it is transmitted, so that each message is kept whole or not at
        all.
        """
        limits, kept = self._context.settings.limits, self._sent(active).bytes
        # Between two clusters, what is not kept may be lost. Of a message in fragments, one fragment counts, so that any message can be kept.
        counted = 0 if active.endpoint.far is not None else kept + min(size, limits.fragment_bytes)
        if counted <= limits.dialog_bytes and self.bytes + size <= limits.unacknowledged_bytes:
            return
        active.endpoint.keep_sent(False)
        active.forget_encoded()
        self._tell(NotKept(ConversationId(uuid_text(active.identity[:16])), kept, number))

    def keep(self, active: Active, number: int, tail: bytes, until: int) -> None:
        """Keep an envelope, without its prefix, until the peer acknowledges ``until``: the number of the last fragment of its message.

        A second call for a number changes nothing.
        """
        if (far := active.endpoint.far) is not None:
            far.sent(self._context.now)
        sent = self._sent(active)
        if sent is NOTHING_SENT:
            sent = active.begin_sent()
        if number <= sent.last:
            return
        if sent.fresh and (number != sent.first + len(sent.fresh) or sent.fresh_bytes >= ROW_BYTES):
            self._write(active, sent)
        sent.add(number, tail, until)
        self.bytes += len(tail)

    def keeps(self, active: Active, number: int) -> bool:
        """Return True if the envelope with a number, which is not acknowledged, is kept."""
        return number <= self._sent(active).last

    def settle(self, active: Active) -> None:
        """Write the row of the step's envelopes, and delete the rows whose envelopes are all acknowledged. A step ends with this."""
        sent, endpoint = self._sent(active), active.endpoint
        if sent.fresh:
            self._write(active, sent)
        while sent.runs and sent.runs[0].until <= endpoint.acked:
            self._drop(active, sent)
        if not sent.runs and endpoint.acked >= endpoint.next_out - 1:
            active.end_sent()
            if (active.side.keeps_sent or endpoint.far is not None) and not endpoint.resends:
                endpoint.keep_sent(True)
                active.forget_encoded()

    # -- reading ------------------------------------------------------------------------------------------

    def has(self, active: Active) -> bool:
        """Return True if transmitted envelopes are kept whose numbers are not acknowledged."""
        sent = self._sent(active)
        return sent.last > active.endpoint.acked

    def after(self, active: Active, number: int) -> Iterator[Remaining]:
        """Return the kept envelopes with numbers above ``number``, in order. Delayed envelopes are not among them."""
        sent = self._sent(active)
        # The dialog may have stopped keeping since.
        prefix = encode_prefix(replace(prefix_of(active.endpoint), resends=True))
        for run in list(sent.runs):
            if run.last > number:
                key = rows.numbered(rows.UNACKNOWLEDGED, active.identity, run.first)
                row = (self._outbox.read if run.size < ROW_BYTES else self._outbox.read_once)(key)
                tails = [] if row is None else self._outbox.decoded(key, decode_tails, row)
                yield from remaining_in(prefix, run.first, tails, number, key)
        yield from remaining_in(prefix, sent.first, list(sent.fresh), number, b"")

    def forget(self, active: Active) -> None:
        """Delete all rows of a dialog, and drop the envelopes of this step, because the dialog is over, and nothing of it must come back."""
        sent = self._sent(active)
        while sent.runs:
            self._drop(active, sent)
        self.bytes -= sent.fresh_bytes
        active.end_sent()

    def leave(self, active: Active) -> list[bytes]:
        """Leave the rows of a dialog to ``returns``, with the envelopes of this step, because the dialog is over. Return the keys of the rows."""
        sent = self._sent(active)
        if sent.fresh:
            self._write(active, sent)
        active.end_sent()
        return [rows.numbered(rows.UNACKNOWLEDGED, active.identity, run.first) for run in sent.runs]

    def drop_row(self, key: bytes, row: bytes) -> None:
        """Delete a row of a dialog that is over."""
        self._outbox.write(key, None)
        self.bytes -= len(row)

    # -- inside -------------------------------------------------------------------------------------------

    def _sent(self, active: Active) -> Sent:
        sent = active.sent
        if sent is None:
            sent = active.begin_sent()
            prefix = encode_prefix(prefix_of(active.endpoint))
            for key, row in self._outbox.scan(rows.UNACKNOWLEDGED + active.identity):
                first, tails = int.from_bytes(key[-8:], "big"), self._outbox.decoded(key, decode_tails, row)
                until = last_number(decode(prefix + tails[-1]))
                sent.found(SentRow(first, first + len(tails) - 1, len(row), until))
        return sent

    def _write(self, active: Active, sent: Sent) -> None:
        until = sent.until
        first, tails, size = sent.take_fresh()
        row = encode_tails(tails)
        self._outbox.write(rows.numbered(rows.UNACKNOWLEDGED, active.identity, first), row)
        sent.found(SentRow(first, first + len(tails) - 1, len(row), until))
        self.bytes += len(row) - size

    def _drop(self, active: Active, sent: Sent) -> None:
        run = sent.drop_first()
        self._outbox.write(rows.numbered(rows.UNACKNOWLEDGED, active.identity, run.first), None)
        self.bytes -= run.size


def remaining_in(prefix: bytes, first: int, tails: list[bytes], number: int, row: bytes) -> Iterator[Remaining]:
    """Yield the envelopes with numbers above ``number``. ``tails`` has them without their ``prefix``, and ``first`` is the number of the first one."""
    for at, tail in enumerate(tails, first):
        if at > number:
            value = prefix + tail
            yield Remaining(at, value, decode(value), row)


def is_sequenced(envelope: Envelope) -> bool:
    """Return True if an envelope is a part of what the application has sent: a MESSAGE or an END."""
    return envelope.seq != NONE and (envelope.kind is Kind.MESSAGE or envelope.kind is Kind.END)
