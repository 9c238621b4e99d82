"""A set of numbers, stored as ranges. The missing numbers of a direction are nearly always a few ranges."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, MutableSet


class Spans(MutableSet[int]):
    """A set of numbers from 0, stored as the bounds of its ranges."""

    __slots__ = ("_bounds",)

    def __init__(self, numbers: Iterable[int] = ()) -> None:
        self._bounds: list[int] = []
        """Bounds in ascending order: for each range its first number, then the number after its last number."""
        for number in sorted(numbers):
            self.extend(number, number + 1)

    def extend(self, start: int, stop: int) -> None:
        """Add the numbers from ``start`` up to, and not including, ``stop``. All numbers of the set must be smaller than ``start``.

        Raises:
            ValueError: the set has a number that is not smaller, or ``start`` is negative.
        """
        if stop <= start:
            return
        last = self._bounds[-1] if self._bounds else 0
        if start < last:
            raise ValueError(f"{start} is below {last}: add ranges in ascending order, from 0")
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
        """Remove one number, if the set has it."""
        at = bisect_right(self._bounds, value)
        if at % 2 == 0:
            return
        start, stop = self._bounds[at - 1 : at + 1]
        around = [(start, value), (value + 1, stop)]
        self._bounds[at - 1 : at + 1] = [bound for begin, end in around if begin < end for bound in (begin, end)]
