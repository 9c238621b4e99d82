"""In-order, once: what to do with a numbered message of one direction."""

from __future__ import annotations

from collections.abc import MutableSet
from enum import Enum
from typing import Any

from conversations.protocol.spans import Spans

NONE = -1
"""The number before the first: nothing accepted, nothing sent."""


class Arrival(Enum):
    """The meaning of a sequence number to its receiver."""

    NEXT = 1
    """The one waited for; it is accepted by this call."""
    DUPLICATE = 2
    """Accepted or held before."""
    AHEAD = 3
    """Something before it is missing; it is held."""
    TOO_FAR = 4
    """Holding it would pass the limit."""
    MISSED = 5
    """It was passed over when the dialog ended, and arrives only now."""


_EMPTY: Any = frozenset()
"""What nearly every direction of a million open dialogs holds and misses; replaced by a set before it is added to."""


class Inbound:
    """The numbers of one direction as its receiver sees them: accepted without a hole, then held ones."""

    __slots__ = ("held", "missing", "next")

    def __init__(self, next_number: int = 0, missing: MutableSet[int] | None = None) -> None:
        self.next = next_number
        """The number that is accepted next; everything below it is accepted, but for ``missing``."""
        self.held: set[int] = _EMPTY
        """Numbers that arrived ahead of a gap."""
        self.missing: MutableSet[int] = missing or _EMPTY
        """Numbers that were passed over at the end of a dialog and have not arrived."""

    def __bool__(self) -> bool:
        raise TypeError("ask for .next or .held: an inbound direction is neither true nor false")

    @property
    def accepted(self) -> int:
        """The last accepted number, ``NONE`` before the first."""
        return self.next - 1

    def arrive(self, number: int, limit: int) -> Arrival:
        """Take note of a number; at most ``limit`` are held at a time."""
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
        """Hold exactly these numbers: they are in rows, or were taken out of them."""
        self.held = numbers or _EMPTY

    def ready(self) -> int | None:
        """Return the held number that may be accepted now, if any."""
        return self.next if self.next in self.held else None

    def believes(self, number: int, limit: int) -> bool:
        """Say whether a number may be accepted without the numbers before it: no more than twice ``limit`` are missed."""
        return number < self.next or number - self.next + len(self.missing) <= 2 * limit

    def jump(self, number: int, limit: int) -> None:
        """Accept ``number`` without the numbers before it, in a dialog that is over: an ERROR needs no predecessor.

        The numbers passed over are remembered, so that each still counts once; a number with which more than twice
        ``limit`` would be missed is not believed and moves nothing.
        """
        if number < self.next or not self.believes(number, limit):
            return
        if number > self.next:
            missing = self.missing if isinstance(self.missing, Spans) else Spans(self.missing)
            missing.extend(self.next, number)
            for held in self.held:
                missing.discard(held)
            self.missing = missing
        self.next = number + 1

    def late(self, number: int, limit: int) -> bool:
        """Count a number of a dialog that is over; False when it was counted before.

        One that is not believed always counts: its bytes are kept as often as it comes.
        """
        if number in self.missing:
            self.missing.discard(number)
            return True
        before = self.next
        self.jump(number, limit)
        return number >= before
