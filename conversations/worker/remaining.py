"""Remaining: what a side has sent and its peer has not acknowledged, transmitted or delayed, and its messages with their fragments joined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge

from conversations.protocol.envelope import Kind, encode
from conversations.protocol.fragments import is_last, joined, last_number
from conversations.protocol.waiting_row import WaitingRow
from conversations.worker.active import Active
from conversations.worker.transmission import Transmission
from conversations.worker.unacknowledged import Remaining, is_sequenced
from conversations.worker.waiting_rows import Waiting


def in_order(transmission: Transmission, waiting: Waiting, active: Active) -> Iterator[Remaining]:
    """Yield what this side has sent and the peer has not acknowledged, in order: transmitted envelopes, and delayed ones.

    The fragments of a message come together, also if the peer has acknowledged the first of them. The rows are read one after the other, because
    all of them may take much memory. So they must stay until the last one is read.
    """
    if not transmission.unacknowledged.has(active) and active.identity not in waiting.delayed.of:
        return iter(())  # so it is with nearly all dialogs that end
    acked = active.endpoint.acked
    start, first = acked, next(_after(transmission, waiting, active, acked), None)
    if first is not None and first.number == acked + 1:
        start -= first.envelope.fragment
    return _after(transmission, waiting, active, start)


def _after(transmission: Transmission, waiting: Waiting, active: Active, after: int) -> Iterator[Remaining]:
    """Yield the kept and the delayed envelopes with numbers above ``after``. A delayed envelope that is kept as well comes once."""
    last = after
    for it in merge(
        transmission.unacknowledged.after(active, after), _delayed(transmission, waiting, active), key=_number
    ):
        if it.number > last:
            last = it.number
            yield it


def _number(it: Remaining) -> int:
    return it.number


def _delayed(transmission: Transmission, waiting: Waiting, active: Active) -> Iterator[Remaining]:
    if active.identity not in waiting.delayed.of:
        return
    rows_of = waiting.delayed_rows(active.identity)
    for _, key in sorted([(envelope.seq, key) for key, _, envelope in rows_of if is_sequenced(envelope)]):
        yield from in_row(transmission, key, waiting.delayed_row(key))


def in_row(transmission: Transmission, key: bytes, kept: WaitingRow) -> Iterator[Remaining]:
    """Yield the envelopes of a delayed row."""
    for envelope, value in transmission.delayed_in(kept):
        yield Remaining(envelope.seq, value, envelope, key)


def whole(found: Iterable[Remaining]) -> Iterator[Remaining]:
    """Join the fragments among envelopes that follow each other. The fragments of a message that is not whole stay as they are.

    One message after the other is joined, when the caller asks for it.
    """
    parts: list[Remaining] = []
    for it in found:
        fits = it.envelope.fragment == len(parts) and (
            not parts or last_number(it.envelope) == last_number(parts[0].envelope)
        )
        if it.envelope.fragments == 1 or not fits:
            yield from parts
            parts = []
        if it.envelope.fragments == 1 or not (fits or it.envelope.fragment == 0):
            yield it
            continue
        parts.append(it)
        if is_last(it.envelope):
            yield _joined(parts)
            parts = []
    yield from parts


def _joined(parts: list[Remaining]) -> Remaining:
    """Return the message of all its fragments, and take them out of the list, because each takes memory."""
    last, count = parts[-1], len(parts)
    bodies = [part.envelope.body for part in parts[:-1]]
    parts.clear()
    envelope = joined(last.envelope, bodies)
    bodies.clear()
    return last._replace(value=encode(envelope), envelope=envelope, pieces=count)


def forget(transmission: Transmission, waiting: Waiting, active: Active, *kinds: Kind) -> int:
    """Delete the delayed rows of a dialog's messages and of its END, or only of these kinds; return how many of the rows are an END.

    An ERROR or another answer stays, because the peer must learn of it.
    """
    own, ends = active.identity, 0
    if own not in waiting.delayed.of:
        return 0
    for key, row, envelope in waiting.delayed_rows(own):
        if is_sequenced(envelope) and envelope.kind in (kinds or (Kind.MESSAGE, Kind.END)):
            transmission.drop(own, key, row)
            ends += envelope.kind is Kind.END
    return ends
