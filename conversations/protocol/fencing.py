"""The part of an endpoint that asks its peer what the peer has accepted, after the dialog is broken, and that answers such a question.

``fences`` has the values, ``endpoint`` the rest of the machine. ``Endpoint`` inherits from ``Fencing``: they are one object with one state, in two modules.
"""

from __future__ import annotations

from conversations.protocol.code_table import class_of_error
from conversations.protocol.codes import ErrorClass
from conversations.protocol.effects import Failure, Reaction
from conversations.protocol.envelope import Envelope, FenceOutcome, Kind
from conversations.protocol.fences import FORGOTTEN, GENERATIONS, Chain, Fence
from conversations.protocol.limits import DESCRIPTION_LIMIT, sendable
from conversations.protocol.sequencing import NONE, Inbound
from conversations.protocol.states import ASKING, OVER, State, Trigger
from conversations.protocol.timers import NEVER, Timed


class Fencing(Timed):
    """What an endpoint keeps for its peer, and knows of the peer's acceptance."""

    __slots__ = (
        "acked", "chain", "dead_lettered", "end_seq", "error", "fence", "fence_at", "fence_since", "inbound", "initiator", "next_out", "renews", "resends",
    )  # fmt: skip

    initiator: bool
    inbound: Inbound
    error: Failure | None
    next_out: int
    acked: int
    dead_lettered: int
    end_seq: int

    def _move(self, trigger: Trigger) -> None:
        raise NotImplementedError

    def _acknowledged(self, number: int) -> None:
        raise NotImplementedError

    def _broken(self, why: Failure) -> None:
        raise NotImplementedError

    @property
    def taken_over(self) -> int:
        """The last number of the peer that this side may acknowledge. The peer forgets what it keeps, up to this number.

        After this side is over, it leaves to the peer what the peer keeps. But what the peer does not keep it accepts, also behind a gap. So the number
        before the first gap counts. Only an ERROR of the peer's application takes over everything before it.
        """
        return self.inbound.whole if self.is_taken_over else self.inbound.unbroken

    @property
    def is_taken_over(self) -> bool:
        """True if an ERROR of the peer's application has ended this side, so that its peer keeps nothing that it has sent before.

        An ERROR after this side has ended itself takes over nothing.
        """
        return self.error is not None and self.error.code > 0 and self.end_seq == NONE

    def begin_unbroken(self) -> None:
        """Set what a dialog begins with: it keeps nothing, and nothing is broken."""
        self.resends = False
        """True if this side keeps the envelopes that it transmits as rows, until the peer acknowledges them."""
        self.renews = False
        """True if the messages that the peer has not accepted are sent again on a new dialog when this dialog breaks."""
        self.fence = Fence.NONE
        self.fence_at = NEVER
        """Time at which the peer is asked (again) what it has accepted."""
        self.fence_since = 0
        """Time of the first FENCE that this process sent; 0 if it sent none."""
        self.chain: Chain | None = None
        """The place of this dialog in its chain of replaced dialogs; None if it replaces no dialog."""

    def keep_sent(self, keeps: bool) -> None:
        """Set whether this side keeps the envelopes that it transmits from now on."""
        self.resends = keeps

    def renew_when_broken(self, renews: bool) -> None:
        """Set whether a new dialog carries on when this dialog breaks."""
        self.renews = renews

    def replace(self, chain: Chain) -> None:
        """Note that this dialog replaces another dialog."""
        self.chain = chain

    def settle(self) -> None:
        """End this side of a broken dialog, and ask the peer what it has accepted. The state must be ERROR."""
        self._move(Trigger.SETTLE)
        self.renews = False  # the application has ended this side, and expects no new dialog
        self._ask_fence()

    def _heard_last(self, before: State) -> None:
        """Note that the acknowledgement in the peer's END, or in an ERROR of its application, is final."""
        if before is not State.CLOSED:
            self.fence, self.fence_at = Fence.ANSWERED, NEVER

    @property
    def is_unsettled(self) -> bool:
        """True if this side has sent something that the peer has not acknowledged, and the peer may still have accepted it."""
        return self.acked < self.next_out - 1 and self.fence < Fence.ANSWERED

    def _renew(self, failure: Failure) -> bool:
        """If a new dialog must carry on, ask the peer what it has accepted, and return True. Then ``on_error`` is not called yet."""
        can = self.renews and self.is_unsettled and class_of_error(failure.code) is ErrorClass.RECOVERABLE
        if not can or self.state not in (State.CONVERSING, State.DISCONNECTED_OUTBOUND):
            return False
        self._move(Trigger.RENEW)
        self.error = failure
        self._ask_fence()
        return True

    @property
    def can_renew(self) -> bool:
        """True if the dialog is broken by an error that allows a new dialog, and the peer may not have accepted everything."""
        error = self.error
        is_last = self.chain is not None and self.chain.generation >= GENERATIONS
        allowed = error is not None and class_of_error(error.code) is ErrorClass.RECOVERABLE and not is_last
        return self.state is State.ERROR and allowed and self.initiator and self.is_unsettled

    def renew(self) -> None:
        """Ask the peer what it has accepted, to send the rest again on a new dialog. ``can_renew`` must be True."""
        self.renews = True
        self._move(Trigger.RENEW)
        self._ask_fence()

    def _ask_fence(self) -> None:
        self.fence, self.fence_at = Fence.ASKING, 0

    def asks_fence(self, now: int, first: int, last: int) -> int:
        """Note that the peer is asked now, and set the time of the next FENCE. Return the time since the first FENCE.

        The pause is as long as the time that has passed since the first FENCE, but at least ``first`` and at most ``last``.
        """
        self.fence_since = self.fence_since or now
        asked_for = now - self.fence_since
        self.fence_at = now + min(max(asked_for, first), last)
        return asked_for

    def unanswered(self) -> None:
        """Give up on the peer's answer. What the peer has accepted stays unknown, so nothing is sent again."""
        self.fence, self.fence_at, self.renews = Fence.UNANSWERED, NEVER, False

    def renewed(self) -> None:
        """Close this side, because a new dialog carries on."""
        self._move(Trigger.RENEWED)
        self.stop_timers()

    def give_up_renewal(self) -> None:
        """Note that there is no new dialog. If the application was not told of the error, the dialog is broken now, else it is closed."""
        self._move(Trigger.GIVE_UP)
        self.stop_timers()
        self.renews = False

    def _fenced(self, envelope: Envelope) -> Reaction:
        before = self.state
        self._move(Trigger.FENCE)
        if self.state is State.ERROR and before is not State.ERROR:
            self._broken(Failure(envelope.code, sendable(envelope.description, DESCRIPTION_LIMIT)))
        return Reaction.FENCE

    def _answered(self, envelope: Envelope) -> Reaction:
        outcome = envelope.extras.fence if envelope.extras is not None else None
        if outcome is None or self.state not in ASKING:
            return Reaction.NOTHING
        if outcome.outcome == FORGOTTEN:
            self.unanswered()
            return Reaction.ANSWERED
        self.fence, self.fence_at = Fence.ANSWERED, NEVER
        if outcome.accepted > self.acked:
            self._acknowledged(outcome.accepted)
        if self.state not in ASKING:
            return Reaction.NOTHING  # the peer has accepted everything, the END included
        complete = self.taken_over >= outcome.transmitted and not outcome.dead_lettered
        self.renews = self.renews and complete
        return Reaction.ANSWERED

    def outcome(self) -> FenceOutcome:
        """Return the answer to a FENCE."""
        return FenceOutcome(self.taken_over, self.next_out - 1, self.state.name, self.dead_lettered > 0)

    def _peer_error(self, envelope: Envelope, held_limit: int) -> Reaction:
        before = self.state
        # The peer forgets what it keeps when its ERROR is accepted. So it must not be accepted after a message that was left to the peer.
        left = before in OVER and envelope.prefix.resends and envelope.seq > self.taken_over + 1
        if envelope.seq != NONE and not left:
            self.inbound.jump(envelope.seq, held_limit)
        failure = Failure(envelope.code, sendable(envelope.description, DESCRIPTION_LIMIT))
        if envelope.code > 0:
            self._heard_last(before)
        elif before in ASKING:
            return Reaction.NOTHING  # the dialog is broken already, and the peer will answer the FENCE
        elif self._renew(failure):
            return Reaction.RENEW
        self._move(Trigger.PEER_ERROR)
        if self.state is State.ERROR and before is not State.ERROR:
            self._broken(failure)
            return Reaction.ERROR
        return Reaction.DISCARD

    def _unaccepted(self, envelope: Envelope) -> Reaction:
        """Receive an envelope of a peer that keeps it, after this side is over. Its number is not accepted, so the peer's row stays."""
        if envelope.kind is Kind.MESSAGE:
            return Reaction.DROP
        before = self.state
        self._move(Trigger.PEER_END)
        self._heard_last(before)
        return Reaction.DISCARD
