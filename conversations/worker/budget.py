"""The budget of one step. The rest waits for the next step, so that no peer decides how long a step or its transaction is."""

from __future__ import annotations

from conversations.ports import Clock


class Budget:
    """Bytes and time of one step; reads may use half of it, so that the records read get their turn.

    Args:
        size: bytes of rows and records that a step may write before it takes on nothing more.
        time: microseconds.
    """

    LOOK_EVERY = 8
    """Things done between two looks at the clock."""

    __slots__ = ("_asked", "_begun", "_clock", "_late", "_left", "_size", "_time", "written")

    def __init__(self, clock: Clock, size: int, time: int) -> None:
        self._clock, self._size, self._time = clock, size, time
        self._begun = clock.now()
        self._asked = self._late = 0
        self._left = False
        self.written = 0
        """Bytes of the transaction that is being filled."""

    def begin(self) -> bool:
        """A step begins; say whether the last one left something that it had taken on."""
        left, self._left = self._left, False
        self._begun, self._late = self._clock.now(), 0
        return left

    def spend(self, size: int) -> None:
        """So many bytes more are written, or fewer if negative."""
        self.written += size

    def collected(self) -> None:
        """The transaction is closed: the next one is empty."""
        self.written = 0

    def is_spent(self) -> bool:
        """Say whether nothing more is taken on in this step."""
        self._asked += 1
        passed = self._late if self._asked % self.LOOK_EVERY else self._passed()
        if self.written < self._size and passed < self._time:
            return False
        self._left = True
        return True

    def is_read(self) -> bool:
        """Say whether nothing more is read, or taken up from rows, in this step."""
        return 2 * self.written >= self._size or 2 * self._passed() >= self._time

    def _passed(self) -> int:
        # A clock that was set back says nothing for the rest of this step.
        self._late = max(self._late, self._clock.now() - self._begun)
        return self._late
