"""Finds the one record for which a transaction fails, as Kafka tells of a batch only."""

from __future__ import annotations

from math import isqrt

Span = tuple[int, int]
"""From the place of a record to behind the place of another."""


class Search:
    """In which pieces records are appended: all at once; then in groups; then each of the group that failed by itself.

    A piece is acknowledged before the next one goes out, so that the piece under way is the one to blame. Three attempts
    find one record of any number, and none when they only were too large together.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self.pieces: list[Span] = [(0, count)]
        self.under_way: Span = (0, count)
        self.rounds = 0
        self._certain = count == 1

    def blame(self, at: int) -> None:
        """The client itself refused one record, and said which."""
        self.under_way, self._certain = (at, at + 1), True

    def begin_again(self) -> None:
        """All at once once more: another producer takes smaller batches."""
        self.pieces, self.under_way, self.rounds = [(0, self._count)], (0, self._count), 0

    @property
    def whole(self) -> bool:
        """True while nothing has failed: everything goes out at once."""
        return self.rounds == 0

    @property
    def found(self) -> int | None:
        """Place of the record that failed by itself."""
        first, stop = self.under_way
        return first if stop - first == 1 and (self.rounds or self._certain) else None

    def narrow(self) -> bool:
        """Look closer at what failed; False when it cannot be done any more."""
        first, stop = self.under_way
        self.rounds += 1
        if stop - first <= 1 or self.rounds > 2:
            return False
        at = self.pieces.index(self.under_way)
        size = isqrt(stop - first) if self.rounds == 1 and stop - first > 3 else 1
        smaller = [(begin, min(begin + size, stop)) for begin in range(first, stop, size)]
        self.pieces[at : at + 1] = smaller
        return True
