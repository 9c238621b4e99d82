"""Reads from the rows of a side what it has transmitted and its peer has not acknowledged, and what it keeps back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from conversations.protocol import rows
from conversations.protocol.endpoint import prefix_of
from conversations.protocol.envelope import Envelope, Kind, decode, encode_prefix
from conversations.protocol.identifiers import uuid_text
from conversations.protocol.referred import following, refers
from conversations.protocol.retransmission import tries
from conversations.protocol.sequencing import NONE
from conversations.protocol.timers import NEVER
from conversations.protocol.topics import STATE, service_topic
from conversations.protocol.unacknowledged import decode_tails
from conversations.protocol.waiting_row import decode_waiting
from conversations_ops.operate.left_out import LeftOut

NOT_KEPT = "?"
"""The type of an envelope whose bytes the side does not keep."""


class Transmission(NamedTuple):
    """One envelope that waits for its peer. Times are in microseconds since 1970."""

    service: str
    partition: int
    own: bytes
    peer: str
    contract: str
    number: int
    """-1 for an envelope without a number."""
    what: str
    """The message type, ``END``, ``ERROR``, or ``NOT_KEPT``."""
    size: int
    """Bytes of the body; 0 if the body is not kept."""
    sent_at: int | None
    """Time of the first transmission, or of the attempt, if it is delayed; None if it is not known."""
    delayed: bool
    """True if the destination has not taken it yet."""
    next_try: int | None
    """Time of the next retransmission; None if there is none, as on one cluster, or if it is not known."""

    @property
    def conversation(self) -> str:
        """The id of the dialog."""
        return uuid_text(self.own[:16])

    @property
    def initiator(self) -> bool:
        """True if the initiator sent it."""
        return self.own[16] == 1

    @property
    def tries(self) -> int:
        """How often it was transmitted again, by the schedule."""
        return 0 if self.next_try is None or self.sent_at is None else tries(self.sent_at, self.next_try)


def transmissions_in(table: Mapping[bytes, bytes], where: tuple[str, str, int]) -> Iterator[Transmission]:
    """Yield the envelopes of the sides in ``table``, by side and number. Leave out unreadable rows, and log a warning.

    ``where`` is the namespace, the service and the number of the partition. ``table`` may have some sides of the partition only.
    """
    namespace, service, partition = where
    left_out = LeftOut(service_topic(namespace, service, STATE))
    for key, row in sorted(table.items()):
        if key[:1] == rows.ENDPOINT:
            try:
                yield from _of_side(table, key[1:], row, (service, partition))
            except (ValueError, LookupError) as error:
                left_out.add(f"partition {partition} row {key.hex()}", error)
    left_out.tell()


def next_try(own: bytes, row: bytes, service: str) -> int | None:
    """Return the time of the next retransmission from an endpoint's row; None if there is none, or if something else is due before.

    Raises:
        UndecodableRecord: the bytes are not an endpoint's row.
    """
    wake = rows.wake_of(row)
    endpoint, _ = rows.decode_endpoint(own, row, service)
    # Without a peer on another cluster, the endpoint's own deadlines are the only ones.
    return wake if 0 < wake < min(endpoint.wake(), NEVER) else None


def _of_side(table: Mapping[bytes, bytes], own: bytes, row: bytes, where: tuple[str, int]) -> Iterator[Transmission]:
    if rows.is_tombstone(row):
        for envelope in _delayed(table, own):
            yield _transmission(where, own, envelope, delayed=True)
        return
    endpoint, _ = rows.decode_endpoint(own, row, where[0])
    prefix, again = encode_prefix(prefix_of(endpoint)), next_try(own, row, where[0])
    found = {it.seq: _transmission(where, own, it, next_try=again) for it in _kept(table, own, prefix)}
    last = [_transmission(where, own, it, delayed=True) for it in _delayed(table, own)]
    found |= {it.number: it for it in last if it.number != NONE}
    for number in range(endpoint.acked + 1, endpoint.next_out):
        yield found.get(number) or Transmission(
            *where, own, endpoint.peer, endpoint.contract, number, NOT_KEPT, 0, None, False, again
        )
    yield from (it for it in last if it.number == NONE)


def _transmission(
    where: tuple[str, int], own: bytes, it: Envelope, *, delayed: bool = False, next_try: int | None = None
) -> Transmission:
    what = it.message_type if it.kind is Kind.MESSAGE else it.kind.name
    return Transmission(
        *where, own, it.prefix.to_service, it.prefix.contract, it.seq, what, len(it.body), it.sent_at, delayed, next_try
    )  # fmt: skip


def _kept(table: Mapping[bytes, bytes], own: bytes, prefix: bytes) -> Iterator[Envelope]:
    for key, row in table.items():
        if key.startswith(rows.UNACKNOWLEDGED + own):
            yield from (decode(prefix + tail) for tail in decode_tails(row))


def _delayed(table: Mapping[bytes, bytes], own: bytes) -> Iterator[Envelope]:
    for key, row in sorted(table.items()):
        if key.startswith(rows.DELAYED + own):
            kept = decode_waiting(row)
            envelope = decode(kept.value)
            if refers(kept):
                yield from following(envelope)
            elif envelope.kind in (Kind.MESSAGE, Kind.END, Kind.ERROR):
                yield envelope
