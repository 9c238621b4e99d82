"""A set of numbers kept as ranges: the missing numbers of a direction are nearly always a few ranges."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, MutableSet


class Spans(MutableSet[int]):
    """Numbers from 0, kept as the bounds of their ranges."""

    __slots__ = ("_bounds",)

    def __init__(self, numbers: Iterable[int] = ()) -> None:
        self._bounds: list[int] = []
        """Where ranges begin and where the next number is in none, in turn, ascending."""
        for number in sorted(numbers):
            self.extend(number, number + 1)

    def extend(self, start: int, stop: int) -> None:
        """Add the numbers from ``start`` up to, and not including, ``stop``; none there may be larger than ``start``.

        Raises:
            ValueError: one is, or ``start`` is negative.
        """
        if stop <= start:
            return
        last = self._bounds[-1] if self._bounds else 0
        if start < last:
            raise ValueError(f"{start} is below {last}: ranges are added in their order, from 0")
        if self._bounds and start == last:
            self._bounds[-1] = stop
        else:
            self._bounds += start, stop

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and bisect_right(self._bounds, number) % 2 == 1

    def __iter__(self) -> Iterator[int]:
        bounds = self._bounds
        for at in range(0, len(bounds), 2):
            yield from range(bounds[at], bounds[at + 1])

    def __len__(self) -> int:
        return sum(self._bounds[1::2]) - sum(self._bounds[::2])

    def __repr__(self) -> str:
        return f"Spans({list(zip(self._bounds[::2], self._bounds[1::2], strict=True))})"

    def add(self, value: int) -> None:
        """Add one number."""
        if value not in self:
            numbers, self._bounds = sorted([*self, value]), []
            for number in numbers:
                self.extend(number, number + 1)

    def discard(self, value: int) -> None:
        """Take one number out; harmless when it is not there."""
        at = bisect_right(self._bounds, value)
        if at % 2 == 0:
            return
        start, stop = self._bounds[at - 1 : at + 1]
        around = [(start, value), (value + 1, stop)]
        self._bounds[at - 1 : at + 1] = [bound for begin, end in around if begin < end for bound in (begin, end)]
