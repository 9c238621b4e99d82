"""The worker's clock: it follows log time, and a clock that never jumps carries this time on between two records."""

from __future__ import annotations

from datetime import timedelta

from conversations.ports import Clock
from conversations.protocol.envelope import encode_long

LEEWAY = 100_000
"""Microseconds by which the brokers' clocks may differ before the worker's time is set back. So it does not jump back and forth."""
RESOLUTION = 1_000
"""Microseconds by which a LogAppendTime may be too early: Kafka gives whole milliseconds, rounded down."""


class LogClock:
    """The worker's time, in microseconds since the epoch.

    It begins as the machine's time. Records that are read move it forward, and commits move it back if it is ahead of the log. From
    then on, the machine's clock is used only to warn that it is off.

    Args:
        machine: the machine's clocks.
        tolerance: how far the machine's clock may be off without a warning.
    """

    def __init__(self, machine: Clock, tolerance: timedelta) -> None:
        self._machine = machine
        self._tolerance = tolerance // timedelta(microseconds=1)
        self._ahead = machine.now() - machine.steady()
        """The worker's time minus the time of the steady clock."""
        self._told = False
        self.step_time = self.now()
        """Time of the current step: everything in the step has this time."""
        self.stamp = encode_long(self.step_time)
        """``step_time``, encoded as in envelopes."""

    def begin_step(self) -> int:
        """Set the time of a new step; return the microseconds by which it is earlier than the time of the last step, else 0."""
        before, self.step_time = self.step_time, self.now()
        self.stamp = encode_long(self.step_time)
        return max(0, before - self.step_time)

    def now(self) -> int:
        """Return the worker's time, in microseconds since the epoch."""
        return self._machine.steady() + self._ahead

    def steady(self) -> int:
        """Return the microseconds of the clock that never jumps; its zero is arbitrary."""
        return self._machine.steady()

    def heard(self, log_time: int) -> None:
        """Move the time forward to ``log_time`` if it is earlier; at ``log_time`` a record that was read was appended."""
        if log_time > self._machine.steady() + self._ahead:
            self._ahead = log_time - self._machine.steady()

    def wrote(self, log_time: int | None, since: int) -> None:
        """Correct the time by a record that this worker wrote; a time that is ahead of the log by more than ``LEEWAY`` is set back.

        Args:
            log_time: append time of the record; None if its topic does not have the time of the log.
            since: time of the steady clock before the record was written.
        """
        if log_time is None:
            return
        self.heard(log_time)
        latest = log_time + RESOLUTION - since
        if self._ahead > latest + LEEWAY:
            self._ahead = latest

    @property
    def off(self) -> int:
        """Microseconds by which the machine's clock is ahead of the worker's time; negative if it is behind."""
        return self._machine.now() - self.now()

    def warns(self) -> bool:
        """Return True if the machine's clock is off by more than the tolerance; only once until it is right again."""
        off = abs(self.off) > self._tolerance
        told, self._told = self._told, off
        return off and not told
