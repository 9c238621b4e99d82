"""The worker's clock. It follows log time. Between two records, it advances with the machine's steady clock, which never jumps."""

from __future__ import annotations

from datetime import timedelta

from conversations.ports import Clock
from conversations.protocol.envelope import encode_long

LEEWAY = 100_000
"""Maximum number of microseconds by which the worker's time may be ahead of the log. A time that is further ahead is set back.

The clocks of brokers differ a little. Without this leeway, the worker's time would often be set back.
"""
RESOLUTION = 1_000
"""Microseconds by which a LogAppendTime may be too early, because Kafka rounds it down to whole milliseconds."""


class LogClock:
    """The worker's time, in microseconds since the epoch.

    At first, the time is taken from the machine's clock. Records that are read move the time forward. Commits move the time back if it is
    ahead of the log. After the start, the machine's clock is only compared with this time, to warn if the machine's clock is wrong.

    Args:
        machine: the machine's clocks.
        tolerance: maximum difference between the machine's clock and this time without a warning.
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
        self._step_began = machine.steady()

    def begin_step(self) -> int:
        """Set the time of a new step. If this time is before the time of the last step, return the difference in microseconds, else 0."""
        self._step_began = self._machine.steady()
        before, self.step_time = self.step_time, self.now()
        self.stamp = encode_long(self.step_time)
        return max(0, before - self.step_time)

    def now(self) -> int:
        """Return the worker's time, in microseconds since the epoch."""
        return self._machine.steady() + self._ahead

    @property
    def step_age(self) -> int:
        """Microseconds since the current step began. Log time, which records move, does not count."""
        return self._machine.steady() - self._step_began

    def steady(self) -> int:
        """Return the time of the machine's steady clock in microseconds. This clock never jumps, and its zero is arbitrary."""
        return self._machine.steady()

    def heard(self, log_time: int) -> None:
        """Move the time forward to ``log_time``, the append time of a record that was read. If the worker's time is later, do nothing."""
        if log_time > self._machine.steady() + self._ahead:
            self._ahead = log_time - self._machine.steady()

    def wrote(self, log_time: int | None, since: int) -> None:
        """Correct the time with a record that this worker wrote. If the time is ahead of the log by more than ``LEEWAY``, set it back.

        Args:
            log_time: append time of the record; None if its topic does not use LogAppendTime.
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
        """Return True if the machine's clock is wrong by more than the tolerance, and was not wrong at the last call."""
        off = abs(self.off) > self._tolerance
        told, self._told = self._told, off
        return off and not told
