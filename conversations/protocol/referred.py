"""Referred bodies: a delayed row may stand for all fragments of a message that are not transmitted yet, and have no bytes of its body.

The body of a large message of a client is in the rows of the pieces of its command already. So its delayed row only says where: which bytes of the command
are the body. The fragments are made when their turn comes, a few in each step (design decision 0063).

    pieces of the command   |head|----------------- body -----------------|
    fragments transmitted         |--0--|--1--|
    the row stands for                        |--2--|--3--|--4--|--5--|-6-|
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from conversations.protocol.envelope import Envelope, encode
from conversations.protocol.waiting_row import WaitingRow, start_of


class Referred(NamedTuple):
    """The bytes of a command that are the body of a message, and how they are cut."""

    command_id: bytes
    start: int
    """Position of the body in the encoded command."""
    size: int
    """Bytes of the body."""
    cut: int
    """Bytes of each fragment; the last one may be smaller."""

    @property
    def fragments(self) -> int:
        """Number of fragments of the message."""
        return -(-self.size // self.cut)

    def part(self, fragment: int) -> tuple[int, int]:
        """Return where a fragment begins and ends in the encoded command."""
        first = fragment * self.cut
        return self.start + first, self.start + min(first + self.cut, self.size)


def refers(row: WaitingRow) -> bool:
    """Return True if a delayed row refers to a body. The envelope in a row that does not is accepted by nobody yet."""
    return row.accepted


def account_of(row: bytes) -> tuple[str, int]:
    """Return the destination of a delayed row, and the bytes that wait for it: the row, and the whole body if the row refers to one.

    The whole body counts until the row is deleted, also when some of its fragments are transmitted.

    Raises:
        UndecodableRecord: the bytes are not such a row.
    """
    topic, size, is_reference = start_of(row)
    return topic, len(row) + (size if is_reference else 0)


def row_of(topic: str, key: bytes, trace: bytes, envelope: Envelope, body: Referred) -> WaitingRow:
    """Return the delayed row for a fragment and all fragments behind it. ``envelope`` is the fragment without its body."""
    value = encode(replace(envelope, body=body.command_id))
    return WaitingRow(
        topic, body.start, body.size, accepted=True, attempts=body.cut, key=key, header=trace, value=value
    )


def body_of(row: WaitingRow, envelope: Envelope) -> Referred:
    """Return the body that a delayed row refers to; ``envelope`` is the one in the row."""
    return Referred(envelope.body, row.offset, row.log_time, row.attempts)


def following(envelope: Envelope) -> Iterator[Envelope]:
    """Yield the envelope of a delayed row and those of all fragments behind it, without their bodies."""
    for ahead in range(envelope.fragments - envelope.fragment):
        yield replace(envelope, seq=envelope.seq + ahead, fragment=envelope.fragment + ahead, body=b"")
