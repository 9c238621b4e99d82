"""The envelopes of one dialog that its peer has not acknowledged, as the owner counts them in memory."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from conversations.protocol.sequencing import NONE


class SentRow(NamedTuple):
    """A row of unacknowledged envelopes: its first and last number, and its bytes."""

    first: int
    last: int
    size: int
    until: int
    """Number of the last fragment of the message that the last envelope belongs to. The row is kept until this number is acknowledged.

    So a message that the peer has accepted only in part can be sent again as a whole, on a new dialog.
    """


class Sent:
    """The envelopes of a dialog that its peer has not acknowledged: the rows of earlier steps, and the envelopes of this step."""

    __slots__ = ("bytes", "first", "fresh", "fresh_bytes", "last", "runs", "until")

    def __init__(self) -> None:
        self.runs: deque[SentRow] = deque()
        self.fresh: list[bytes] = []
        """The envelopes of this step, without their prefix."""
        self.fresh_bytes = 0
        self.first = NONE
        """Number of the first envelope in ``fresh``."""
        self.last = NONE
        """The highest number that is kept, or was kept."""
        self.until = NONE
        """Number of the last fragment of the message that the last envelope of this step belongs to."""
        self.bytes = 0
        """Bytes of the rows and of the envelopes of this step."""

    def add(self, number: int, tail: bytes, until: int) -> None:
        """Keep an envelope of this step. Its message has its last fragment at the number ``until``."""
        if not self.fresh:
            self.first = number
        self.fresh.append(tail)
        self.fresh_bytes += len(tail)
        self.bytes += len(tail)
        self.last, self.until = number, until

    def take_fresh(self) -> tuple[int, list[bytes], int]:
        """Return the first number, the envelopes and the bytes of this step, and forget them. The caller makes a row of them."""
        fresh, size = self.fresh, self.fresh_bytes
        self.bytes -= size
        self.fresh, self.fresh_bytes = [], 0
        return self.first, fresh, size

    def found(self, row: SentRow) -> None:
        """Account for a row."""
        self.runs.append(row)
        self.bytes += row.size
        self.last = max(self.last, row.last)

    def drop_first(self) -> SentRow:
        """Account for the deletion of the first row, and return it."""
        run = self.runs.popleft()
        self.bytes -= run.size
        return run


NOTHING_SENT: Final = Sent()
"""Stands for a dialog without unacknowledged envelopes. All such dialogs share it, to save memory, so it never changes."""
