"""The time a worker goes by: that of the log, carried on by a clock that never jumps."""

from __future__ import annotations

from datetime import timedelta

from conversations.ports import Clock
from conversations.protocol.envelope import encode_long

LEEWAY = 100_000
"""Microseconds by which brokers' clocks may differ without the worker's time being moved back and forth between them."""
RESOLUTION = 1_000
"""Microseconds: LogAppendTime is told in whole milliseconds, rounded down."""


class LogClock:
    """Microseconds since the epoch, as the log counts them.

    Until the log was heard of, it is the machine's time. From then on the machine's clock only shows how far it is off.

    Args:
        machine: the machine's clocks.
        tolerance: how far the machine's clock may be off without a warning.
    """

    def __init__(self, machine: Clock, tolerance: timedelta) -> None:
        self._machine = machine
        self._tolerance = tolerance // timedelta(microseconds=1)
        self._ahead = machine.now() - machine.steady()
        """The log's time less the steady clock's."""
        self._told = False
        self.step_time = self.now()
        """Time of the step under way: everything that happens in it happens at once."""
        self.stamp = encode_long(self.step_time)
        """The same, encoded as envelopes carry it."""

    def begin_step(self) -> int:
        """Take the time of a step; return by how much it is before that of the last one, or 0."""
        before, self.step_time = self.step_time, self.now()
        self.stamp = encode_long(self.step_time)
        return max(0, before - self.step_time)

    def now(self) -> int:
        """Microseconds since the epoch."""
        return self._machine.steady() + self._ahead

    def steady(self) -> int:
        """Microseconds of the clock that never jumps; its zero is arbitrary."""
        return self._machine.steady()

    def heard(self, log_time: int) -> None:
        """A record that was read was appended at ``log_time``: it is at least that late."""
        if log_time > self._machine.steady() + self._ahead:
            self._ahead = log_time - self._machine.steady()

    def wrote(self, log_time: int | None, since: int) -> None:
        """A record written no earlier than ``since`` of the steady clock was appended at ``log_time``, if its topic says."""
        if log_time is None:
            return
        self.heard(log_time)
        latest = log_time + RESOLUTION - since
        if self._ahead > latest + LEEWAY:
            self._ahead = latest

    @property
    def off(self) -> int:
        """Microseconds by which the machine's clock is ahead of the worker's time."""
        return self._machine.now() - self.now()

    def warns(self) -> bool:
        """Say whether the machine's clock is off by more than is tolerated; True once until it is well again."""
        off = abs(self.off) > self._tolerance
        told, self._told = self._told, off
        return off and not told
