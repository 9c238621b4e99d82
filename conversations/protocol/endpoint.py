"""One side of one dialog, as a pure state machine: no clock, no I/O, no logging, no randomness.

The owner of the partition passes in received envelopes (``receive``), requests of the application (``send``, ``end``, ...) and the time
(``due``). The endpoint returns what the owner must deliver and transmit. Times are in microseconds since 1970, and are always arguments.
The state changes only in ``_move``, by the table in ``states.py``.
"""

from __future__ import annotations

from typing import NamedTuple

from conversations.protocol.acknowledgements import ACK_AFTER, ACK_EVERY, FIRST_ACK_AFTER, RESEND_AFTER, RESEND_ASKS
from conversations.protocol.code_table import class_of_error
from conversations.protocol.codes import LIFETIME, ErrorClass, SystemCode
from conversations.protocol.effects import Due, Failure, Reaction, Transmit
from conversations.protocol.envelope import Envelope, FenceOutcome, Kind, Prefix
from conversations.protocol.fences import FORGOTTEN, GENERATIONS, Chain, Fence
from conversations.protocol.limits import DESCRIPTION_LIMIT, sendable
from conversations.protocol.sequencing import NONE, Arrival, Inbound
from conversations.protocol.states import ASKING, TRANSITIONS, State, Trigger, check_timer, refuse

NEVER = (1 << 62) - 1
"""A deadline that never comes."""
SECOND = 1_000_000

OVER = frozenset({State.DISCONNECTED_OUTBOUND, State.ERROR, State.CLOSED, State.FENCING_OUTBOUND, State.SETTLING})
"""States in which the messages of the peer are not given to handlers any more."""


_BROKEN = ASKING | {State.ERROR}
"""States after a breakdown: the lifetime has no effect any more."""
_RESENDING = frozenset({State.CONVERSING, State.DISCONNECTED_OUTBOUND})
"""States in which a missing envelope is transmitted again."""
# ``TRANSITIONS`` as tuples, with the state and the trigger as indexes. Every message needs a look-up, so it must be fast.
_NEXT = tuple(tuple(TRANSITIONS.get((state, trigger)) for trigger in Trigger) for state in State)


class Kept(NamedTuple):
    """The fields of an endpoint's row that can change, in the order of the row."""

    state: int
    next_in: int
    next_out: int
    acked: int
    told: int
    end_seq: int
    timer: int
    """-1 if no timer is set."""
    asked: int
    held: int
    """Number of held messages."""
    discarded: int
    dead_lettered: int
    code: int
    """0 if the dialog is not broken."""
    description: str


class Endpoint:
    """One side of one dialog.

    ``service`` and ``key`` belong to this side, ``peer`` and ``peer_key`` to the other side. The lifetime ends at ``expires_at``;
    ``NEVER`` means that the lifetime is unlimited.
    """

    __slots__ = (
        "ack_at", "acked", "asked", "chain", "contract", "conversation", "dead_lettered", "discarded", "end_seq", "error",
        "expires_at", "fence", "fence_at", "fence_since", "firing", "handled", "inbound", "initiator", "key", "next_out", "origin", "peer", "peer_key",
        "recover", "renews", "resend_at", "resends", "service", "started_until", "state", "stateful", "timer", "told",
    )  # fmt: skip

    def __init__(
        self,
        conversation: bytes,
        initiator: bool,
        *,
        contract: str,
        service: str,
        peer: str,
        key: str,
        peer_key: str,
        expires_at: int,
    ) -> None:
        self.conversation = conversation
        self.initiator = initiator
        self.contract = contract
        self.service = service
        self.peer = peer
        self.key = key
        self.peer_key = peer_key
        self.origin = "" if initiator else peer
        """The service that chose the key of the conversation group: a peer that began a dialog, or "" for this service.

        ``rows.SHARED`` stands for a group that initiators name.
        """
        self.expires_at = expires_at
        self.started_until = 0
        """Latest log time at which the first message may create the target's endpoint; 0 before the first transmission."""
        self.state = State.STARTED_OUTBOUND if initiator else State.STARTED_INBOUND
        self.inbound = Inbound()
        self.next_out = 0
        self.acked = NONE
        """The last number of this side that the peer has acknowledged."""
        self.told = NONE
        """The last number of the peer that this side has acknowledged."""
        self.end_seq = NONE
        """The number of this side's END or ERROR; ``NONE`` until this side has ended."""
        self.timer = NEVER
        self.firing = False
        """True while the timer's handler runs.

        The row keeps the timer until the handler finishes, so the timer fires again after a crash.
        """
        self.recover = False
        """True if the dialog broke before a restart and ``on_error`` did not finish. It may have run in part."""
        self.ack_at = NEVER
        self.resend_at = NEVER
        self.asked = 0
        self.error: Failure | None = None
        self.discarded = 0
        self.dead_lettered = 0
        self.handled = 0
        """Number of accepted messages whose handler has finished.

        It is negative if an older version of this library began the dialog, and did not count these messages.
        """
        self.stateful = False
        """True if a handler of this side has written its group's state."""
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

    def join_group_of(self, origin: str) -> None:
        """Join a group with this ``origin``: the group of the dialog whose handler begins this dialog, or a group that initiators name."""
        self.origin = origin

    def may_start_until(self, log_time: int) -> None:
        """Set the latest log time at which the first message may create the target's endpoint. The target is this side or the peer."""
        self.started_until = log_time

    def restore(self, inbound: Inbound, kept: Kept) -> None:
        """Restore the endpoint from the fields of its row.

        Raises:
            ValueError: ``kept.state`` is not the number of a state.
        """
        self.state = state = State(kept.state)
        self.inbound = inbound
        self.next_out, self.acked, self.told = kept.next_out, kept.acked, kept.told
        self.end_seq, self.asked = kept.end_seq, kept.asked
        self.timer = NEVER if kept.timer < 0 else kept.timer
        self.discarded, self.dead_lettered = kept.discarded, kept.dead_lettered
        # The row lacks these deadlines. So an ACK is due at once, and the wait for missing messages begins anew.
        if kept.held:
            self.resend_at = 0
        if inbound.next - 1 > self.told and state in (State.STARTED_INBOUND, State.CONVERSING):
            self.ack_at = 0
        if kept.code:
            self.error = Failure(kept.code, kept.description)
        self.recover = state is State.ERROR
        if state in ASKING:
            self.fence_at = 0

    def resume(self, held: set[int], *, firing: bool, told_of_error: bool) -> None:
        """Add the facts from rows other than the endpoint's own row.

        Args:
            held: numbers of messages that are held.
            firing: the timer's handler failed, and waits for another attempt.
            told_of_error: ``on_error`` failed and waits for another attempt, so ``due`` must not return ``BROKEN``.
        """
        if held:
            self.inbound.hold(held)
        self.firing = firing
        self.recover = self.recover and not told_of_error

    def wake(self) -> int:
        """Return the time of the first deadline of an endpoint that is restored from its row.

        0 means at once, ``NEVER`` means no deadline.
        """
        if self.state is State.CLOSED:
            return NEVER
        inbound = self.inbound
        owes_ack = inbound.next - 1 > self.told and self.state in (State.STARTED_INBOUND, State.CONVERSING)
        if owes_ack or inbound.held or self.state in _BROKEN:
            return 0
        return min(self.timer, self.expires_at)

    # -- requests of the application -------------------------------------------------------------------

    def send(self) -> int:
        """Return the number for one message to transmit."""
        if self.state is not State.CONVERSING:
            self._move(Trigger.SEND)
        number = self.next_out
        self.next_out = number + 1
        return number

    def end(self) -> Transmit | None:
        """End this side.

        In the states CONVERSING and FENCING, return the END to transmit. Its number follows all numbers that were sent before. In other
        states, return None.
        """
        before = self.state
        self._move(Trigger.END)
        self.timer = NEVER
        if before is not State.CONVERSING and before is not State.FENCING:
            return None
        self.end_seq = self._number()
        return Transmit(Kind.END, self.end_seq)

    def settle(self) -> None:
        """End this side of a broken dialog, and ask the peer what it has accepted. The state must be ERROR."""
        self._move(Trigger.SETTLE)
        self.renews = False
        self._ask_fence()

    def end_with_error(self, code: int, description: str) -> Transmit | None:
        """End this side with an error of the application (a positive code).

        In the states CONVERSING and STARTED_INBOUND, return the ERROR to transmit. In other states, return None.
        """
        before = self.state
        self._move(Trigger.END_WITH_ERROR)
        self.timer = NEVER
        if before is State.STARTED_INBOUND:
            # The first number of a direction is for a message, so this ERROR has no number.
            return Transmit(Kind.ERROR, NONE, code, description)
        if before is not State.CONVERSING:
            self.renews = False
            return None
        self.end_seq = self._number()
        return Transmit(Kind.ERROR, self.end_seq, code, description)

    def cleanup(self) -> None:
        """Close this side without telling the peer."""
        self._move(Trigger.CLEANUP)
        self.timer = NEVER

    def set_timer(self, at: int) -> None:
        """Set the dialog's only timer, or set it anew; ``NEVER`` cancels it.

        Raises:
            DialogEnded: the state allows no timer; usually the dialog is over on this side (8458).
        """
        check_timer(self.state)
        self.timer = at
        self.firing = False

    def fired(self) -> None:
        """Note that the timer's handler has finished. This cancels the timer, unless the handler has set it anew."""
        if self.firing:
            self.timer = NEVER
            self.firing = False

    def drop(self) -> None:
        """Count an envelope of this side that was never transmitted and never will be."""
        self.discarded += 1

    def gave_up_on(self) -> None:
        """Count a message of the peer that became a dead letter."""
        self.dead_lettered += 1

    def wrote_state(self) -> None:
        """Note that a handler of this side wrote its group's state."""
        self.stateful = True

    def release_held(self) -> list[int]:
        """Return the numbers of all held messages, in order. From then on, no message is held."""
        held = sorted(self.inbound.held)
        self.inbound.hold(set())
        return held

    def finished(self) -> None:
        """Count a message whose handler has finished."""
        if self.handled >= 0:
            self.handled += 1

    def end_waits(self, number: int, now: int) -> None:
        """Stop holding the number of the peer's END.

        No earlier number is missing, and the END waits in a parked row until it is accepted.
        """
        if number in self.inbound.held:
            self.inbound.held.discard(number)
            self._gap_moved(now)

    # -- received envelopes ---------------------------------------------------------------------------------

    def receive(self, envelope: Envelope, now: int, held_limit: int) -> Reaction:
        """Process an envelope of the peer, and return the action that the owner must carry out."""
        if envelope.ack > self.acked:
            self._acknowledged(envelope.ack)
        kind = envelope.kind
        if kind is Kind.MESSAGE or kind is Kind.END:
            if self.state in OVER:
                if envelope.prefix.resends and envelope.seq >= self.inbound.next:
                    return self._unaccepted(envelope)
                if envelope.seq > self.inbound.next:
                    return self._late(envelope, held_limit)
            arrival = self.inbound.arrive(envelope.seq, held_limit)
            if (
                arrival is Arrival.NEXT
                and kind is Kind.MESSAGE
                and self.state is State.CONVERSING
                and self.resend_at == NEVER
            ):
                return Reaction.DELIVER  # the case of nearly all messages, in which the state stays the same
            return self._sequenced(envelope, arrival, now)
        if kind is Kind.ERROR:
            return self._peer_error(envelope, held_limit)
        if kind is Kind.RESEND:
            return Reaction.RESEND if self.state in _RESENDING else Reaction.NOTHING
        if kind is Kind.FENCE:
            return self._fenced(envelope)
        if kind is Kind.FENCED:
            return self._answered(envelope)
        return Reaction.NOTHING

    def _unaccepted(self, envelope: Envelope) -> Reaction:
        """Receive an envelope of a peer that keeps it, after this side is over. Its number is not accepted, so the peer's row stays."""
        if envelope.kind is Kind.MESSAGE:
            return Reaction.DROP
        before = self.state
        self._move(Trigger.PEER_END)
        self._heard_last(before)
        return Reaction.DISCARD

    def _late(self, envelope: Envelope, held_limit: int) -> Reaction:
        if envelope.seq in self.inbound.held:
            return Reaction.DUPLICATE  # another copy is held, and its bytes are kept when this side closes
        if not self.inbound.believes(envelope.seq, held_limit):
            return Reaction.DISCARD
        self.inbound.jump(envelope.seq, held_limit)
        return self._in_order(envelope.kind)

    def _sequenced(self, envelope: Envelope, arrival: Arrival, now: int) -> Reaction:
        if arrival is Arrival.NEXT:
            if self.resend_at != NEVER:
                self._gap_moved(now)
            return self._in_order(envelope.kind)
        if arrival is Arrival.AHEAD:
            if self.resend_at == NEVER:
                self.asked, self.resend_at = 0, now + RESEND_AFTER
            return Reaction.HOLD
        if arrival is Arrival.TOO_FAR:
            return Reaction.OVERFLOW
        if arrival is Arrival.MISSED:
            return self._in_order(envelope.kind)
        # The peer may not have seen the acknowledgement, so it is due again.
        self.told = min(self.told, self.inbound.accepted - 1)
        return Reaction.DUPLICATE

    def _in_order(self, kind: Kind) -> Reaction:
        before = self.state
        if kind is Kind.MESSAGE:
            if before is State.CONVERSING:
                return Reaction.DELIVER
            self._move(Trigger.MESSAGE)
            if before is State.STARTED_INBOUND or before is State.FENCING:
                return Reaction.DELIVER
            self.discarded += 1
            return Reaction.DISCARD
        self._move(Trigger.PEER_END)
        self._heard_last(before)
        if self.state is State.DISCONNECTED_INBOUND:
            return Reaction.END
        return Reaction.DISCARD

    def _heard_last(self, before: State) -> None:
        """Note that the acknowledgement in the peer's END, or in an ERROR of its application, is final."""
        if before is not State.CLOSED:
            self.fence, self.fence_at = Fence.ANSWERED, NEVER

    def _peer_error(self, envelope: Envelope, held_limit: int) -> Reaction:
        if envelope.seq != NONE:
            self.inbound.jump(envelope.seq, held_limit)
        before = self.state
        failure = Failure(envelope.code, sendable(envelope.description, DESCRIPTION_LIMIT))
        if envelope.code > 0:
            self._heard_last(before)
        elif before in ASKING:
            return (
                Reaction.NOTHING
            )  # the dialog is broken already, and the answer to the FENCE tells what the peer has accepted
        elif self._renew(failure):
            return Reaction.RENEW
        self._move(Trigger.PEER_ERROR)
        if self.state is State.ERROR and before is not State.ERROR:
            self._broken(failure)
            return Reaction.ERROR
        return Reaction.DISCARD

    # -- fences -------------------------------------------------------------------------------------------

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
        self.timer = NEVER

    def give_up_renewal(self) -> None:
        """Note that there is no new dialog. If the application was not told of the error, the dialog is broken now, else it is closed."""
        self._move(Trigger.GIVE_UP)
        self.timer, self.firing, self.renews = NEVER, False, False

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
        self.acked = max(self.acked, min(outcome.accepted, self.next_out - 1))
        complete = self.inbound.accepted >= outcome.transmitted and not outcome.dead_lettered
        self.renews = self.renews and complete
        return Reaction.ANSWERED

    def outcome(self) -> FenceOutcome:
        """Return the answer to a FENCE."""
        return FenceOutcome(self.inbound.accepted, self.next_out - 1, self.state.name, self.dead_lettered > 0)

    def _acknowledged(self, number: int) -> None:
        if number >= self.next_out:
            return  # ignore the acknowledgement, because the number was never sent
        self.acked = number
        if number == self.next_out - 1:
            self._move(Trigger.ACKNOWLEDGED)

    def _gap_moved(self, now: int) -> None:
        waiting = [number for number in self.inbound.held if number >= self.inbound.next]
        self.asked, self.resend_at = 0, (now + RESEND_AFTER if waiting else NEVER)

    # -- failures on this side ---------------------------------------------------------------------

    def fail(self, code: SystemCode, description: str = "") -> Transmit | None:
        """Break the dialog with a system code.

        Return the ERROR to transmit, which has no number, or None if the peer must not get an ERROR.
        """
        told = self.state in (State.CONVERSING, State.STARTED_INBOUND, State.DISCONNECTED_INBOUND)
        text = sendable(description, DESCRIPTION_LIMIT) or code.text
        if not self._renew(Failure(code.number, text)):
            self._move(Trigger.PEER_ERROR)
            if self.state is State.ERROR:
                self._broken(Failure(code.number, text))
        return Transmit(Kind.ERROR, NONE, code.number, text) if told else None

    def _broken(self, why: Failure) -> None:
        self.error = why
        self.timer = self.resend_at = NEVER
        self.firing = False

    # -- time -----------------------------------------------------------------------------------------

    def next_deadline(self) -> int:
        """Return the time of the next deadline; ``NEVER`` if there is none."""
        if self.state is State.CLOSED:
            return NEVER
        if self.recover:
            return 0
        soonest = min(self.ack_at, self.resend_at) if self.firing else min(self.timer, self.ack_at, self.resend_at)
        return min(soonest, self.fence_at) if self.state in _BROKEN else min(soonest, self.expires_at)

    def due(self, now: int) -> list[Due]:
        """Return the deadlines that have passed, and clear them or set the next ones."""
        passed: list[Due] = []
        if self.state is State.CLOSED:
            return passed
        if self.ack_at <= now:
            self.ack_at = NEVER
            passed.append(Due.ACK)
        if self.expires_at <= now and self.state not in _BROKEN:
            passed.append(self._expire())
            return passed
        if self.fence_at <= now:
            passed.append(Due.FENCE)
        if self.recover:
            self.recover = False
            passed.append(Due.BROKEN)
        if self.timer <= now and not self.firing:
            self.firing = True
            passed.append(Due.TIMER)
        if self.resend_at == 0:
            self.resend_at = now + (
                RESEND_AFTER << self.asked
            )  # after a restore from a row, the missing message may still be on its way
        elif self.resend_at <= now:
            passed.append(self._ask_again(now))
        return passed

    def _expire(self) -> Due:
        failure = Failure(LIFETIME.number, LIFETIME.text)
        if self._renew(failure):
            return Due.RENEW
        self._move(Trigger.LIFETIME)
        if self.state is State.ERROR:
            self._broken(failure)
        return Due.LIFETIME

    def _ask_again(self, now: int) -> Due:
        if self.asked >= RESEND_ASKS:
            self.resend_at = NEVER
            return Due.GAP
        self.asked += 1
        self.resend_at = now + (RESEND_AFTER << self.asked)
        return Due.RESEND

    def owes_ack(self, now: int) -> bool:
        """Return True if a dedicated ACK must be sent now. If not, and a message is unacknowledged, set a deadline for the ACK."""
        behind = self.inbound.next - 1 - self.told
        if behind <= 0:
            return False
        if behind >= ACK_EVERY or self.state not in (State.STARTED_INBOUND, State.CONVERSING):
            return True
        if self.ack_at == NEVER:
            self.ack_at = now + (FIRST_ACK_AFTER if self.told == NONE else ACK_AFTER)
        return False

    def acknowledge(self) -> int:
        """Return the number that the next envelope to the peer must acknowledge, and note that this side has acknowledged it."""
        self.told = self.inbound.accepted
        self.ack_at = NEVER
        return self.told

    # -- inside ---------------------------------------------------------------------------------------

    def _number(self) -> int:
        number = self.next_out
        self.next_out = number + 1
        return number

    def _move(self, trigger: Trigger) -> None:
        target = _NEXT[self.state][trigger]
        if target is None:
            refuse(self.state, trigger)
            raise AssertionError(f"no rule for {trigger.name} in {self.state.name}")
        self.state = target


def prefix_of(endpoint: Endpoint) -> Prefix:
    """Return the prefix. Every envelope of this endpoint begins with it."""
    return Prefix(
        endpoint.conversation,
        endpoint.initiator,
        endpoint.contract,
        endpoint.service,
        endpoint.peer,
        endpoint.key,
        endpoint.resends,
        endpoint.started_until,
        -1 if endpoint.expires_at >= NEVER else endpoint.expires_at,
    )
