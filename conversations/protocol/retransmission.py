"""Retransmission: when a side transmits again what a peer on another cluster has not acknowledged.

Between two clusters an envelope may be lost or damaged. So a side transmits its unacknowledged envelopes again after 4, 8, 16, 32 and then
always 64 seconds. Each acknowledgement of something new begins anew with 4 seconds. A peer that cannot be reached is no error: the side goes
on until the lifetime ends. The times are those of Service Broker. On one cluster nothing is lost, and nothing is transmitted again.

The first time, a side transmits everything again that is not acknowledged. If still nothing is acknowledged, the peer cannot be reached, or is slow. Then
each further time carries only the **first** of these envelopes, as a probe. So an outage fills no transmission topic with copies, and a
slow cluster does not get slower (design decision 0062).

Times are in microseconds.
"""

from __future__ import annotations

from typing import Final

from conversations.durations import SECOND
from conversations.protocol.timers import NEVER

FIRST: Final = 4 * SECOND
LONGEST: Final = 64 * SECOND
ACK_WITHIN: Final = SECOND
"""Time within which a side acknowledges what came from another cluster. It is shorter than ``FIRST``, so that little is transmitted in vain."""


class Retransmission:
    """The time of the next retransmission of one side."""

    __slots__ = ("_probes", "_wait", "at")

    def __init__(self) -> None:
        self.at, self._wait, self._probes = NEVER, FIRST, False

    def restored(self, at: int) -> None:
        """Go on after a restart with this time; 0 or ``NEVER`` to wait first.

        What is unacknowledged was transmitted before, so a probe is first.
        """
        self.at, self._probes = 0 if at == NEVER else at, True

    def sent(self, now: int) -> None:
        """Note that this side has something unacknowledged."""
        if self.at == NEVER:
            self.at, self._wait, self._probes = now + FIRST, FIRST, False

    def acknowledged(self, now: int, *, everything: bool) -> None:
        """Note that the peer has acknowledged more, or everything."""
        self._wait, self._probes = FIRST, False
        self.at = NEVER if everything else now + FIRST

    def again(self, now: int) -> bool:
        """Return True if it is time to transmit again. If so, set the next time.

        A side whose time is 0 waits first: its acknowledgement may be on the way, and a worker restores many sides at once.
        """
        if self.at > now:
            return False
        if self.at == 0:
            self.at = now + FIRST
            return False
        self._wait = min(2 * self._wait, LONGEST)
        self.at = now + self._wait
        return True

    def probes(self) -> bool:
        """Return True if only the first unacknowledged envelope is transmitted now.

        After this call it is so every time, until something is acknowledged.
        """
        probes, self._probes = self._probes, True
        return probes


def tries(sent_at: int, next_try: int) -> int:
    """Return how often an envelope was transmitted again before ``next_try``, by the schedule. A worker that restarted may have done so more often."""
    count, wait, at = 0, FIRST, sent_at + FIRST
    while at + wait // 2 < next_try and wait < LONGEST:
        wait *= 2
        count, at = count + 1, at + wait
    return count + max(0, (next_try - at + LONGEST // 2) // LONGEST)
