"""What an endpoint owes its peer, and what it misses from it: acknowledgements, and questions for missing messages."""

from __future__ import annotations

from conversations.protocol.acknowledgements import (
    ACK_AFTER,
    ACK_EVERY,
    FIRST_ACK_AFTER,
    MOST_DOUBLINGS,
    RESEND_AFTER,
    RESEND_ASKS,
)
from conversations.protocol.effects import Due
from conversations.protocol.fencing import Fencing
from conversations.protocol.retransmission import ACK_WITHIN, Retransmission
from conversations.protocol.sequencing import NONE
from conversations.protocol.states import State
from conversations.protocol.timers import NEVER


class Acknowledging(Fencing):
    """The acknowledgements of an endpoint, its questions for missing messages, and what it transmits again."""

    __slots__ = ("ack_at", "asked", "far", "resend_at", "told")

    told: int
    """The last number of the peer that this side has acknowledged."""
    ack_at: int
    """Time at which an ACK is due; ``NEVER`` if none is."""
    asked: int
    """Number of RESENDs for the missing message."""
    resend_at: int
    """Time of the next RESEND; ``NEVER`` if no message is missing."""
    far: Retransmission | None
    """When this side transmits again; None if the peer is on the same cluster, where nothing is lost."""

    def cross(self, again_at: int | None = None) -> None:
        """Note that envelopes to the peer may be lost, so that this side transmits again what is not acknowledged.

        ``again_at`` is the first deadline in the row of a restored endpoint: it does not transmit before it. If it is 0 or ``NEVER``, it waits anew.
        None is an endpoint that has transmitted nothing yet.
        """
        self.far = Retransmission()
        if again_at is not None and self.acked < self.next_out - 1:
            self.far.restored(again_at)

    def owes_ack(self, now: int) -> bool:
        """Return True if a dedicated ACK must be sent now. If not, and a message is unacknowledged, set a deadline for the ACK."""
        inbound = self.inbound
        behind = (self.taken_over if inbound.missing else inbound.next - 1) - self.told
        if behind <= 0:
            return False
        if behind >= ACK_EVERY or self.state not in (State.STARTED_INBOUND, State.CONVERSING):
            return True
        if self.ack_at == NEVER:
            wait = FIRST_ACK_AFTER if self.told == NONE else ACK_AFTER if self.far is None else ACK_WITHIN
            self.ack_at = now + wait
        return False

    def acknowledge(self) -> int:
        """Return the number that the next envelope to the peer must acknowledge, and note that this side has acknowledged it."""
        inbound = self.inbound
        self.told = self.taken_over if inbound.missing else inbound.next - 1
        self.ack_at = NEVER
        return self.told

    def _gap_moved(self, now: int) -> None:
        waiting = [number for number in self.inbound.held if number >= self.inbound.next]
        self.asked, self.resend_at = 0, (now + RESEND_AFTER if waiting else NEVER)

    def _ask_again(self, now: int) -> Due:
        if self.asked >= RESEND_ASKS and self.far is None:
            self.resend_at = NEVER
            return Due.GAP
        self.asked += 1
        self.resend_at = now + (RESEND_AFTER << min(self.asked, MOST_DOUBLINGS))
        return Due.RESEND
