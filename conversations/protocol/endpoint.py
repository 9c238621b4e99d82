"""One side of one dialog, as a pure machine: no clock, no I/O, no logging, no randomness.

The owner of the partition feeds it what arrived (``receive``), what the application wants (``send``, ``end``, ...)
and what time it is (``due``); it answers with what to deliver and what to transmit. Time is in microseconds since the
epoch and always an argument. The state changes only in ``_move``, along the table of ``states.py``.
"""

from __future__ import annotations

from typing import NamedTuple

from conversations.protocol.acknowledgements import ACK_AFTER, ACK_EVERY, FIRST_ACK_AFTER, RESEND_AFTER, RESEND_ASKS
from conversations.protocol.codes import LIFETIME, Code
from conversations.protocol.effects import Due, Failure, Reaction, Transmit
from conversations.protocol.envelope import Envelope, Kind, Prefix
from conversations.protocol.limits import DESCRIPTION_LIMIT, sendable
from conversations.protocol.sequencing import NONE, Arrival, Inbound
from conversations.protocol.states import TRANSITIONS, State, Trigger, check_timer, refuse

NEVER = (1 << 62) - 1
"""A deadline that never comes."""
SECOND = 1_000_000

OVER = frozenset({State.DISCONNECTED_OUTBOUND, State.ERROR, State.CLOSED})
"""States in which nothing more of the peer reaches a handler."""


# The table by position, because it is looked up for every message.
_NEXT = tuple(tuple(TRANSITIONS.get((state, trigger)) for trigger in Trigger) for state in State)


class Kept(NamedTuple):
    """What an endpoint's row keeps of what changes, in the row's order."""

    state: int
    next_in: int
    next_out: int
    acked: int
    told: int
    end_seq: int
    timer: int
    """-1: none."""
    asked: int
    held: int
    """How many messages are held."""
    discarded: int
    dead_lettered: int
    code: int
    """0: not broken."""
    description: str


class Endpoint:
    """One side of one dialog.

    ``prefix`` is what every envelope of this side begins with; ``service`` its own service, ``key`` its own key.
    """

    __slots__ = (
        "ack_at", "acked", "asked", "contract", "conversation", "dead_lettered", "discarded", "end_seq", "error",
        "expires_at", "firing", "handled", "inbound", "initiator", "key", "next_out", "origin", "peer", "peer_key", "recover", "resend_at",
        "service", "started_until", "state", "stateful", "timer", "told",
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
        """Whose the conversation group is: the peer service that began it, or "" for this service's own."""
        self.expires_at = expires_at
        self.started_until = 0
        """Until when (log time) the first message may create the peer's endpoint; 0 before the first transmission."""
        self.state = State.STARTED_OUTBOUND if initiator else State.STARTED_INBOUND
        self.inbound = Inbound()
        self.next_out = 0
        self.acked = NONE
        """The last of our numbers that the peer acknowledged."""
        self.told = NONE
        """The last of the peer's numbers that we acknowledged."""
        self.end_seq = NONE
        """The number of our END or ERROR once we ended."""
        self.timer = NEVER
        self.firing = False
        """The timer's handler is at work; until it has finished the row keeps the timer, so that a crash fires it again."""
        self.recover = False
        """Broken before a restart, and nobody knows whether ``on_error`` ran: it did not finish."""
        self.ack_at = NEVER
        self.resend_at = NEVER
        self.asked = 0
        self.error: Failure | None = None
        self.discarded = 0
        self.dead_lettered = 0
        self.handled = 0
        """Accepted messages whose handler has finished; negative: an older release began the dialog and did not count."""
        self.stateful = False
        """A handler of this side has written its group's state."""

    def join_group_of(self, origin: str) -> None:
        """Belong to the group of the dialog whose handler begins this one: perhaps one that a peer's dialog opened."""
        self.origin = origin

    def may_start_until(self, log_time: int) -> None:
        """Note until when (log time) the first message may create the target's endpoint, here or at the peer."""
        self.started_until = log_time

    def restore(self, inbound: Inbound, kept: Kept) -> None:
        """Take up where a state row left off.

        Raises:
            ValueError: there is no such state.
        """
        self.state = state = State(kept.state)
        self.inbound = inbound
        self.next_out, self.acked, self.told = kept.next_out, kept.acked, kept.told
        self.end_seq, self.asked = kept.end_seq, kept.asked
        self.timer = NEVER if kept.timer < 0 else kept.timer
        self.discarded, self.dead_lettered = kept.discarded, kept.dead_lettered
        # When these were due is not kept: an acknowledgement is due at once, a gap is given its time anew.
        if kept.held:
            self.resend_at = 0
        if inbound.next - 1 > self.told and state in (State.STARTED_INBOUND, State.CONVERSING):
            self.ack_at = 0
        if kept.code:
            self.error = Failure(kept.code, kept.description)
        self.recover = state is State.ERROR

    def resume(self, held: set[int], *, firing: bool, told_of_error: bool) -> None:
        """Learn the facts that are in other rows than the endpoint's own.

        Args:
            held: numbers of messages that are held.
            firing: the timer's handler failed, and waits to be tried again.
            told_of_error: ``on_error`` failed, and waits to be tried again: nobody need ask for it anew.
        """
        if held:
            self.inbound.hold(held)
        self.firing = firing
        self.recover = self.recover and not told_of_error

    def wake(self) -> int:
        """When ``due`` will have something to say to an owner that takes this endpoint up from its row."""
        if self.state is State.CLOSED:
            return NEVER
        inbound = self.inbound
        owes_ack = inbound.next - 1 > self.told and self.state in (State.STARTED_INBOUND, State.CONVERSING)
        if owes_ack or inbound.held or self.state is State.ERROR:
            return 0
        return min(self.timer, self.expires_at)

    # -- what the application wants -------------------------------------------------------------------

    def send(self) -> int:
        """Number one message to transmit."""
        if self.state is not State.CONVERSING:
            self._move(Trigger.SEND)
        number = self.next_out
        self.next_out = number + 1
        return number

    def end(self) -> Transmit | None:
        """End this side. Only in CO the peer is told; everything sent before goes first."""
        conversing = self.state is State.CONVERSING
        self._move(Trigger.END)
        self.timer = NEVER
        if not conversing:
            return None
        self.end_seq = self._number()
        return Transmit(Kind.END, self.end_seq)

    def end_with_error(self, code: int, description: str) -> Transmit | None:
        """End this side with an error of the application (a positive code); the peer is told in CO and SI."""
        before = self.state
        self._move(Trigger.END_WITH_ERROR)
        self.timer = NEVER
        if before is State.STARTED_INBOUND:
            # The first number of a direction is a message's: this ERROR has none.
            return Transmit(Kind.ERROR, NONE, code, description)
        if before is not State.CONVERSING:
            return None
        self.end_seq = self._number()
        return Transmit(Kind.ERROR, self.end_seq, code, description)

    def cleanup(self) -> None:
        """Forget this side without telling the peer."""
        self._move(Trigger.CLEANUP)
        self.timer = NEVER

    def set_timer(self, at: int) -> None:
        """Set or move the one timer; NEVER cancels it.

        Raises:
            DialogEnded: the dialog is over on this side (8458).
        """
        check_timer(self.state)
        self.timer = at
        self.firing = False

    def fired(self) -> None:
        """The timer's handler has finished; it may have set the timer anew."""
        if self.firing:
            self.timer = NEVER
            self.firing = False

    def drop(self) -> None:
        """Count an envelope of this side that was never transmitted, and is not to be."""
        self.discarded += 1

    def gave_up_on(self) -> None:
        """Count a message of the peer that became a dead letter."""
        self.dead_lettered += 1

    def wrote_state(self) -> None:
        """A handler of this side wrote its group's state."""
        self.stateful = True

    def release_held(self) -> list[int]:
        """Return the numbers of messages that are held, in order; none is any more."""
        held = sorted(self.inbound.held)
        self.inbound.hold(set())
        return held

    def finished(self) -> None:
        """Count a message whose handler has finished."""
        if self.handled >= 0:
            self.handled += 1

    def end_waits(self, number: int, now: int) -> None:
        """The peer's END is here, and waits for its turn without having been accepted: no gap is before it."""
        if number in self.inbound.held:
            self.inbound.held.discard(number)
            self._gap_moved(now)

    # -- what arrives ---------------------------------------------------------------------------------

    def receive(self, envelope: Envelope, now: int, held_limit: int) -> Reaction:
        """Take an envelope of the peer and say what to do with it."""
        if envelope.ack > self.acked:
            self._acknowledged(envelope.ack)
        kind = envelope.kind
        if kind is Kind.MESSAGE or kind is Kind.END:
            if self.state in OVER and envelope.seq > self.inbound.next:
                return self._late(envelope, held_limit)
            arrival = self.inbound.arrive(envelope.seq, held_limit)
            if (
                arrival is Arrival.NEXT
                and kind is Kind.MESSAGE
                and self.state is State.CONVERSING
                and self.resend_at == NEVER
            ):
                return Reaction.DELIVER  # nearly all: nothing of the state changes
            return self._sequenced(envelope, arrival, now)
        if kind is Kind.ERROR:
            return self._peer_error(envelope, held_limit)
        if kind is Kind.RESEND:
            return Reaction.RESEND if self.state is State.CONVERSING else Reaction.NOTHING
        return Reaction.NOTHING

    def _late(self, envelope: Envelope, held_limit: int) -> Reaction:
        if envelope.seq in self.inbound.held:
            return Reaction.DUPLICATE  # what is held is kept when this side ends
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
        # The peer may not have seen the acknowledgement: owe it again.
        self.told = min(self.told, self.inbound.accepted - 1)
        return Reaction.DUPLICATE

    def _in_order(self, kind: Kind) -> Reaction:
        before = self.state
        if kind is Kind.MESSAGE:
            if before is State.CONVERSING:
                return Reaction.DELIVER
            self._move(Trigger.MESSAGE)
            if before is State.STARTED_INBOUND:
                return Reaction.DELIVER
            self.discarded += 1
            return Reaction.DISCARD
        self._move(Trigger.PEER_END)
        if self.state is State.DISCONNECTED_INBOUND:
            return Reaction.END
        return Reaction.DISCARD

    def _peer_error(self, envelope: Envelope, held_limit: int) -> Reaction:
        if envelope.seq != NONE:
            self.inbound.jump(envelope.seq, held_limit)
        before = self.state
        self._move(Trigger.PEER_ERROR)
        if self.state is State.ERROR and before is not State.ERROR:
            self._broken(Failure(envelope.code, sendable(envelope.description, DESCRIPTION_LIMIT)))
            return Reaction.ERROR
        return Reaction.DISCARD

    def _acknowledged(self, number: int) -> None:
        if number >= self.next_out:
            return  # acknowledges what was never sent: believe nothing of it
        self.acked = number
        if number == self.next_out - 1:
            self._move(Trigger.ACKNOWLEDGED)

    def _gap_moved(self, now: int) -> None:
        waiting = [number for number in self.inbound.held if number >= self.inbound.next]
        self.asked, self.resend_at = 0, (now + RESEND_AFTER if waiting else NEVER)

    # -- what ends it from inside ---------------------------------------------------------------------

    def fail(self, code: Code, description: str = "") -> Transmit | None:
        """Break the dialog for a reason of the broker's; the peer is told with an unsequenced ERROR."""
        told = self.state in (State.CONVERSING, State.STARTED_INBOUND, State.DISCONNECTED_INBOUND)
        self._move(Trigger.PEER_ERROR)
        text = sendable(description, DESCRIPTION_LIMIT) or code.description
        if self.state is State.ERROR:
            self._broken(Failure(code.number, text))
        return Transmit(Kind.ERROR, NONE, code.number, text) if told else None

    def _broken(self, why: Failure) -> None:
        self.error = why
        self.timer = self.resend_at = NEVER
        self.firing = False

    # -- time -----------------------------------------------------------------------------------------

    def next_deadline(self) -> int:
        """When ``due`` has something to say next; NEVER when only arrivals matter."""
        if self.state is State.CLOSED:
            return NEVER
        if self.recover:
            return 0
        soonest = min(self.ack_at, self.resend_at) if self.firing else min(self.timer, self.ack_at, self.resend_at)
        return soonest if self.state is State.ERROR else min(soonest, self.expires_at)

    def due(self, now: int) -> list[Due]:
        """Say which deadlines have passed, and move on from them."""
        passed: list[Due] = []
        if self.state is State.CLOSED:
            return passed
        if self.ack_at <= now:
            self.ack_at = NEVER
            passed.append(Due.ACK)
        if self.expires_at <= now and self.state is not State.ERROR:
            passed.append(Due.LIFETIME)
            self._expire()
            return passed
        if self.recover:
            self.recover = False
            passed.append(Due.BROKEN)
        if self.timer <= now and not self.firing:
            self.firing = True
            passed.append(Due.TIMER)
        if self.resend_at == 0:
            self.resend_at = now + (
                RESEND_AFTER << self.asked
            )  # taken up from a row: the missing message may be on its way
        elif self.resend_at <= now:
            passed.append(self._ask_again(now))
        return passed

    def _expire(self) -> None:
        self._move(Trigger.LIFETIME)
        if self.state is State.ERROR:
            self._broken(Failure(LIFETIME.number, LIFETIME.description))

    def _ask_again(self, now: int) -> Due:
        if self.asked >= RESEND_ASKS:
            self.resend_at = NEVER
            return Due.GAP
        self.asked += 1
        self.resend_at = now + (RESEND_AFTER << self.asked)
        return Due.RESEND

    def owes_ack(self, now: int) -> bool:
        """Say whether a dedicated ACK must go now; else set a deadline for it when something is unacknowledged."""
        behind = self.inbound.next - 1 - self.told
        if behind <= 0:
            return False
        if behind >= ACK_EVERY or self.state not in (State.STARTED_INBOUND, State.CONVERSING):
            return True
        if self.ack_at == NEVER:
            self.ack_at = now + (FIRST_ACK_AFTER if self.told == NONE else ACK_AFTER)
        return False

    def acknowledge(self) -> int:
        """Return the number to acknowledge with whatever is transmitted now."""
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
    """Make what every envelope of this endpoint begins with."""
    return Prefix(
        endpoint.conversation,
        endpoint.initiator,
        endpoint.contract,
        endpoint.service,
        endpoint.peer,
        endpoint.key,
        False,  # resends: reserved
        endpoint.started_until,
        -1 if endpoint.expires_at >= NEVER else endpoint.expires_at,
    )
