"""The sequence numbers of one direction of a dialog: each number is accepted once, in order."""

from __future__ import annotations

from collections.abc import Collection, MutableSet
from enum import Enum
from typing import Final

from conversations.protocol.spans import Spans

NONE: Final = -1
"""The number before the first number: nothing is accepted, or nothing is sent."""


class Arrival(Enum):
    """The meaning of an arriving sequence number for the receiver."""

    NEXT = 1
    """It is the next number, and this call accepts it."""
    DUPLICATE = 2
    """It was accepted or held before."""
    AHEAD = 3
    """An earlier number is missing, so this number is held."""
    TOO_FAR = 4
    """It is not held, because too many numbers are held already, or this number is too far ahead."""
    MISSED = 5
    """It was passed over when the dialog ended, and arrives only now."""


_EMPTY: Final[set[int]] = set()
"""An empty set that all directions share for ``held`` and ``missing``, to save memory. It is replaced before a number is added."""


class Inbound:
    """The numbers of one direction at its receiver: the next number to accept, the held numbers and the missing numbers."""

    __slots__ = ("held", "missing", "next")

    def __init__(self, next_number: int = 0, missing: MutableSet[int] | None = None) -> None:
        self.next = next_number
        """The number that is accepted next. All numbers below it are accepted, except those in ``missing``."""
        self.held: set[int] = _EMPTY
        """Numbers that arrived early, because a number before them is missing."""
        self.missing: MutableSet[int] = missing or _EMPTY
        """Numbers that were passed over when the dialog ended, and have not arrived."""

    def __bool__(self) -> bool:
        raise TypeError("an inbound direction is neither true nor false: use .next or .held")

    @property
    def accepted(self) -> int:
        """The last accepted number; ``NONE`` before the first one."""
        return self.next - 1

    def arrive(self, number: int, limit: int) -> Arrival:
        """Account for an arriving number, and return its meaning. At most ``limit`` numbers are held at a time."""
        if number == self.next:
            self.next = number + 1
            if self.held:
                self.held.discard(number)
            return Arrival.NEXT
        if number in self.missing:
            self.missing.discard(number)
            return Arrival.MISSED
        if number < self.next or number in self.held:
            return Arrival.DUPLICATE
        if len(self.held) >= limit or number - self.next > 2 * limit:
            return Arrival.TOO_FAR
        if not self.held:
            self.held = set()
        self.held.add(number)
        return Arrival.AHEAD

    def hold(self, numbers: set[int]) -> None:
        """Set the held numbers. They must be the numbers of the held rows."""
        self.held = numbers or _EMPTY

    def has(self, number: int) -> bool:
        """Return True if a number is accepted."""
        return number < self.next and number not in self.missing

    def gap_end(self) -> int:
        """Return the last number of the first gap, before the first held number; ``NONE`` if no number is held."""
        return min((number for number in self.held if number >= self.next), default=0) - 1

    def give_back(self, number: int, count: int) -> bool:
        """Let the last ``count`` numbers be missing, and return True, if ``number`` is the last accepted number.

        They are the first fragments of a message that never becomes whole. ``next`` does not change, because it never becomes smaller.
        """
        if number != self.next - 1:
            return False
        self._miss(self.next - count, self.next)
        return True

    @property
    def whole(self) -> int:
        """The last accepted number, without the fragments that were given back."""
        return last_whole(self.accepted, self.missing)

    @property
    def unbroken(self) -> int:
        """The last number before the first missing one."""
        return before_gap(self.accepted, self.missing)

    def ready(self) -> int | None:
        """Return the held number that may be accepted now; None if there is none."""
        return self.next if self.next in self.held else None

    def believes(self, number: int, limit: int) -> bool:
        """Return True if ``number`` may be accepted without the numbers before it. At most ``2 * limit`` numbers may then be missing."""
        return number < self.next or number - self.next + len(self.missing) <= 2 * limit

    def jump(self, number: int, limit: int) -> None:
        """Accept ``number`` although numbers before it are missing. This is for a dialog that is over, or that an ERROR ends.

        The numbers that are passed over are added to ``missing``. So each of them still counts once, when it arrives. If ``believes``
        returns False for ``number``, this method changes nothing.
        """
        if number < self.next or not self.believes(number, limit):
            return
        if number > self.next:
            self._miss(self.next, number)
            for held in self.held:
                self.missing.discard(held)
        self.next = number + 1

    def _miss(self, first: int, end: int) -> None:
        missing = self.missing if isinstance(self.missing, Spans) else Spans(self.missing)
        missing.extend(first, end)
        self.missing = missing

    def late(self, number: int, limit: int) -> bool:
        """Account for a number of a dialog that is over. Return False if the number arrived before.

        If ``believes`` returns False for ``number``, the result is always True. So the bytes of this number are kept each time it arrives.
        """
        if number in self.missing:
            self.missing.discard(number)
            return True
        before = self.next
        self.jump(number, limit)
        return number >= before


def before_gap(accepted: int, missing: Collection[int]) -> int:
    """Return the last number before the first missing one."""
    return min(missing) - 1 if missing else accepted


def last_whole(accepted: int, missing: Collection[int]) -> int:
    """Return the last accepted number, without the fragments that were given back: they are missing, and nothing after them is accepted.

    What an ERROR has passed over is missing, too, but the number of the ERROR is accepted.
    """
    while missing and accepted in missing:
        accepted -= 1
    return accepted
