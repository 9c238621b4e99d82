"""The budget of one step. Work beyond the budget waits for the next step, so that no peer can make a step or its transaction too long."""

from __future__ import annotations

from typing import Final

from conversations.ports import Clock
from conversations.protocol.endpoint import NEVER


class Budget:
    """Limits of one step in bytes and time. Routing may use only half of each limit, so that the same step can handle the records.

    Args:
        clock: tells the time.
        size: bytes of rows and records after which a step starts no further item.
        time: microseconds after which a step starts no further item.
        flow: bytes of fragments and pieces that a step reads, and bytes of fragments that it transmits.
    """

    LOOK_EVERY: Final = 8
    """Number of items or records after which the clock is read again."""

    __slots__ = (
        "_asked",
        "_begun",
        "_clock",
        "_departed",
        "_flow",
        "_late",
        "_left",
        "_size",
        "_taken",
        "_time",
        "_transmitted",
        "written",
    )

    def __init__(self, clock: Clock, size: int, time: int, flow: int) -> None:
        self._clock, self._size, self._time, self._flow = clock, size, time, flow
        self._taken = self._transmitted = 0
        self._begun = clock.now()
        self._asked = self._late = 0
        self._left = False
        self.written = 0
        """Bytes of rows and records in the transaction that is being filled."""
        self._departed = 0

    def begin(self) -> bool:
        """Begin a step; return True if the last step ran out of its budget before its lanes were done."""
        left, self._left = self._left, False
        self._taken = 0
        self.go_on()
        return left

    def go_on(self) -> None:
        """Let the time of a step that was begun ahead count from now, because until now its worker waited for the commit of another one."""
        self._begun, self._late = self._clock.now(), 0

    def spend(self, size: int) -> None:
        """Add to the bytes that the step writes; a negative number subtracts."""
        self.written += size

    def take(self, size: int) -> None:
        """Add to the bytes of fragments and pieces that the step reads."""
        self._taken += size

    def transmits(self, size: int) -> bool:
        """Return True if this step may transmit a fragment of ``size`` bytes, and count it. One fragment may always go."""
        if self._transmitted and self._transmitted + size > self._flow:
            return False
        self._transmitted += size
        return True

    def collected(self) -> None:
        """Reset the bytes, because the transaction is closed and the next one is empty."""
        self._departed = self.written
        self.written = self._transmitted = 0

    @property
    def has_room_ahead(self) -> bool:
        """True if the transaction that was closed last has few bytes, so that the next one may be filled while it is in memory."""
        return 2 * self._departed <= self._size

    def is_spent(self) -> bool:
        """Return True if this step must start no further item."""
        self._asked += 1
        passed = self._late if self._asked % self.LOOK_EVERY else self._passed()
        if self.written < self._size and passed < self._time:
            return False
        self._left = True
        return True

    def is_read(self, until: int = NEVER) -> bool:
        """Return True if this step must not route further records, and must not take up further rows, or if it is ``until`` or later."""
        passed = self._passed()
        return 2 * self.written >= self._size or 2 * passed >= self._time or self._begun + passed >= until

    def is_flooded(self) -> bool:
        """Return True if this step must not route further records, because they may be fragments or pieces, and it has enough of these."""
        return self._taken >= self._flow

    def after(self, time: int) -> int:
        """Return the time, for ``is_read``, at which ``time`` microseconds from now have passed."""
        return self._begun + self._passed() + time

    def _passed(self) -> int:
        # If the machine's clock is set back during the step, the longest time seen so far stays.
        self._late = max(self._late, self._clock.now() - self._begun)
        return self._late
