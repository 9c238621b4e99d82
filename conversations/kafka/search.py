"""Finds the one record that makes a transaction fail, because Kafka names only the batch."""

from __future__ import annotations

from math import isqrt

Span = tuple[int, int]
"""Index of the first record, and index after the last record."""


class Search:
    """Divides the records of a transaction into pieces that are appended one after another.

    At first all records are one piece. In the second attempt that piece is divided into groups. In the third attempt the
    group that failed is divided into single records.

    A piece is acknowledged before the next piece is sent. So after a failure, the piece under way is the piece that failed.
    Three attempts find one bad record among any number of records. If every record alone is accepted, no record is found.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self.pieces: list[Span] = [(0, count)]
        self.under_way: Span = (0, count)
        self.rounds = 0
        self._certain = count == 1

    def blame(self, at: int) -> None:
        """Note that the client itself refused the record at index ``at``."""
        self.under_way, self._certain = (at, at + 1), True

    def begin_again(self) -> None:
        """Begin again with all records in one piece, because a new producer sends smaller batches."""
        self.pieces, self.under_way, self.rounds = [(0, self._count)], (0, self._count), 0

    @property
    def whole(self) -> bool:
        """True before the first failure: all records are one piece."""
        return self.rounds == 0

    @property
    def found(self) -> int | None:
        """Index of the record that failed alone; None if it is not known."""
        first, stop = self.under_way
        return first if stop - first == 1 and (self.rounds or self._certain) else None

    def narrow(self) -> bool:
        """Divide the piece that failed. Return False if the piece is a single record, or if pieces were divided twice already."""
        first, stop = self.under_way
        self.rounds += 1
        if stop - first <= 1 or self.rounds > 2:
            return False
        at = self.pieces.index(self.under_way)
        size = isqrt(stop - first) if self.rounds == 1 and stop - first > 3 else 1
        smaller = [(begin, min(begin + size, stop)) for begin in range(first, stop, size)]
        self.pieces[at : at + 1] = smaller
        return True
