"""One side of one dialog, as a pure state machine: no clock, no I/O, no logging, no randomness.

The owner of the partition passes in received envelopes (``receive``), requests of the application (``send``, ``end``, ...) and the time
(``due``). The endpoint returns what the owner must deliver and transmit. Times are in microseconds since 1970, and are always arguments.
The state changes only in ``_move``, by the table in ``states.py``.
"""

from __future__ import annotations

from typing import Final

from conversations.protocol.acknowledgements import MOST_DOUBLINGS, RESEND_AFTER
from conversations.protocol.acknowledging import Acknowledging
from conversations.protocol.codes import LIFETIME, SystemCode
from conversations.protocol.effects import Due, Failure, Reaction, Transmit
from conversations.protocol.envelope import Envelope, Kind, Prefix
from conversations.protocol.kept import Kept
from conversations.protocol.limits import DESCRIPTION_LIMIT, sendable
from conversations.protocol.sequencing import NONE, Arrival, Inbound
from conversations.protocol.states import ASKING, OVER, TRANSITIONS, State, Trigger, refuse
from conversations.protocol.timers import NEVER as NEVER  # noqa: PLC0414 - other modules know the name from here

SECOND = 1_000_000

_BROKEN: Final = ASKING | {State.ERROR}
"""States after a breakdown: the lifetime has no effect any more."""
_RESENDING: Final = frozenset({State.CONVERSING, State.DISCONNECTED_OUTBOUND})
"""States in which a missing envelope is transmitted again."""
# ``TRANSITIONS`` as tuples, with the state and the trigger as indexes. Every message needs a look-up, so it must be fast.
_NEXT = tuple(tuple(TRANSITIONS.get((state, trigger)) for trigger in Trigger) for state in State)


class Endpoint(Acknowledging):
    """One side of one dialog.

    ``service`` and ``key`` belong to this side, ``peer`` and ``peer_key`` to the other side. The lifetime ends at ``expires_at``;
    ``NEVER`` means that the lifetime is unlimited.
    """

    __slots__ = (
        "contract", "conversation", "discarded", "expires_at", "handled", "key", "origin", "peer", "peer_key",
        "recover", "service", "started_until", "stateful",
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
        self.end_seq = NONE
        """The number of this side's END or ERROR; ``NONE`` until this side has ended."""
        self.timer, self.firing, self.named = NEVER, False, None
        self.recover = False
        """True if the dialog broke before a restart and ``on_error`` did not finish. It may have run in part."""
        self.ack_at = NEVER
        self.resend_at = NEVER
        self.asked = 0
        self.far = None
        self.error: Failure | None = None
        self.discarded = 0
        self.dead_lettered = 0
        self.handled = 0
        """Number of accepted messages whose handler has finished.

        It is negative if an older version of this library began the dialog, and did not count these messages.
        """
        self.stateful = False
        """True if a handler of this side has written its group's state."""
        self.begin_unbroken()

    def join_group_of(self, origin: str) -> None:
        """Join a group with this ``origin``: the group of the dialog whose handler begins this dialog, or a group that initiators name."""
        self.origin = origin

    def may_start_until(self, log_time: int) -> None:
        """Set the latest log time at which the first message may create the target's endpoint. The target is this side or the peer."""
        self.started_until = log_time

    def expire_earlier(self, at: int) -> bool:
        """Take over the end of the lifetime at the peer, if it is earlier. Return False if it is not. -1 is unlimited."""
        if not 0 <= at < self.expires_at:
            return False
        self.expires_at = at
        return True

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

    def wait_until(self, at: int) -> None:
        """Go on to wait for a missing message until ``at``: the first deadline in the row of this endpoint.

        So an endpoint that leaves memory meanwhile does not begin its wait anew, again and again.
        """
        if self.resend_at == 0:
            self.resend_at = at

    @property
    def waits_anew(self) -> bool:
        """True if a wait begins anew when ``due`` is called, because the row does not have its end."""
        return self.resend_at == 0 or (self.far is not None and self.far.at == 0)

    def resume(self, held: set[int], *, firing: set[str], told_of_error: bool) -> None:
        """Add the facts from rows other than the endpoint's own row.

        Args:
            held: numbers of messages that are held.
            firing: names of the timers whose handler failed, and waits for another attempt.
            told_of_error: ``on_error`` failed and waits for another attempt, so ``due`` must not return ``BROKEN``.
        """
        if held:
            self.inbound.hold(held)
        self.resume_firing(firing)
        self.recover = self.recover and not told_of_error

    def wake(self) -> int:
        """Return the time of the first deadline of an endpoint that is restored from its row.

        0 means at once, ``NEVER`` means no deadline.
        """
        if self.state is State.CLOSED:
            return NEVER
        inbound = self.inbound
        owes_ack = inbound.next - 1 > self.told and self.state in (State.STARTED_INBOUND, State.CONVERSING)
        if owes_ack or self.state in _BROKEN:
            return 0
        soonest = min(self.timer, self.expires_at)
        if inbound.held:
            soonest = min(soonest, self.resend_at) if self.resend_at != NEVER else 0
        if self.far is not None:
            soonest = min(soonest, self.far.at)
        return soonest if self.named is None else min(soonest, *self.named.due.values())

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
        self.stop_timers()
        if before is not State.CONVERSING and before is not State.FENCING:
            return None
        self.end_seq = self._number()
        return Transmit(Kind.END, self.end_seq)

    def end_with_error(self, code: int, description: str) -> Transmit | None:
        """End this side with an error of the application (a positive code).

        In the states CONVERSING and STARTED_INBOUND, return the ERROR to transmit. In other states, return None.
        """
        before = self.state
        self._move(Trigger.END_WITH_ERROR)
        self.stop_timers()
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
        self.stop_timers()

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

    def finished(self, fragments: int = 1) -> None:
        """Count a message whose handler has finished, with each of its fragments."""
        if self.handled >= 0:
            self.handled += fragments

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
            if self.far is not None:
                self.far.acknowledged(now, everything=self.acked >= self.next_out - 1)
        kind = envelope.kind
        if kind is Kind.MESSAGE or kind is Kind.END:
            if self.state in OVER:
                if envelope.prefix.resends and envelope.seq > self.taken_over + (kind is Kind.END):
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
            # A RESEND that is older than an acknowledgement asks for what has arrived meanwhile, and its row is gone.
            return Reaction.RESEND if self.state in _RESENDING and envelope.ack >= self.acked else Reaction.NOTHING
        if kind is Kind.FENCE:
            return self._fenced(envelope)
        if kind is Kind.FENCED:
            return self._answered(envelope)
        return Reaction.NOTHING

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
            # A peer on another cluster transmits again what is not acknowledged.
            return Reaction.OVERFLOW if self.far is None or not envelope.prefix.resends else Reaction.DROP
        if arrival is Arrival.MISSED:
            return self._in_order(envelope.kind)
        # The peer may not have seen the acknowledgement, so it is due again.
        self.told = min(self.told, self.taken_over - 1)
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

    def _acknowledged(self, number: int) -> None:
        if number >= self.next_out:
            return  # ignore the acknowledgement, because the number was never sent
        self.acked = number
        if number == self.next_out - 1:
            self._move(Trigger.ACKNOWLEDGED)

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
        self.resend_at = NEVER
        self.stop_timers()

    # -- time -----------------------------------------------------------------------------------------

    def next_deadline(self) -> int:
        """Return the time of the next deadline; ``NEVER`` if there is none."""
        if self.state is State.CLOSED:
            return NEVER
        if self.recover:
            return 0
        soonest = min(self.ack_at, self.resend_at)
        if not self.firing:
            soonest = min(self.timer, soonest)  # two numbers each, because compiled code calls no function then
        if self.named is not None:
            soonest = min(soonest, self.named.next())
        if self.far is not None:
            soonest = min(soonest, self.far.at)
        return min(soonest, self.fence_at) if self.state in _BROKEN else min(soonest, self.expires_at)

    def due(self, now: int) -> list[Due]:
        """Return the deadlines that have passed, and clear them or set the next ones. ``fire`` does this for the timers."""
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
        if self.next_timer() <= now:
            passed.append(Due.TIMER)
        if self.far is not None and self.far.again(now):
            if self.state in _RESENDING and self.acked < self.next_out - 1:
                passed.append(Due.RETRANSMIT)
            else:
                self.far.at = NEVER
        if self.resend_at == 0:
            self.resend_at = now + (
                RESEND_AFTER << min(self.asked, MOST_DOUBLINGS)
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
