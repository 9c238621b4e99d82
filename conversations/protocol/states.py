"""The states of an endpoint, and all transitions between them.

Every change of an endpoint's state is an entry of ``TRANSITIONS``, and only ``Endpoint._move`` carries it out. Every pair of state and
trigger is in ``TRANSITIONS`` or in ``REFUSALS``, and a test checks every pair. The diagram in ``docs/protocol.md`` is generated from
``TRANSITIONS``.

The table does not have the envelopes that a transition sends, because ``endpoint.py`` decides about them. The states are those of Service
Broker's conversation endpoints.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from conversations.errors import DialogEnded
from conversations.protocol.codes import END_REFUSED, SEND_REFUSED, TIMER_REFUSED, LocalCode


class State(IntEnum):
    """The state of one side of a dialog."""

    STARTED_OUTBOUND = 0
    """This side began the dialog, and has not sent anything yet."""
    STARTED_INBOUND = 1
    """The peer began the dialog. A later envelope has arrived, but not the first message."""
    CONVERSING = 2
    DISCONNECTED_OUTBOUND = 3
    """This side has ended; the peer has not acknowledged the end yet."""
    DISCONNECTED_INBOUND = 4
    """The peer has ended; this side has not."""
    ERROR = 5
    """The dialog broke, by an error of the peer, by a system error of this side, or by its lifetime. This side has not ended yet."""
    CLOSED = 6
    """The dialog is over on this side; a tombstone remains."""
    FENCING = 7
    """The dialog broke. This side asks the peer what it has accepted, and sends the rest again on a new dialog."""
    FENCING_OUTBOUND = 8
    """Like FENCING, after this side has ended."""
    SETTLING = 9
    """This side has ended a broken dialog. It asks the peer what it has accepted, because it keeps envelopes without an answer."""


class Trigger(IntEnum):
    """A verb of the application, or an arrival or a deadline, that can change the state of an endpoint."""

    SEND = 0
    END = 1
    END_WITH_ERROR = 2
    CLEANUP = 3
    MESSAGE = 4
    """A message of the peer was accepted in order."""
    PEER_END = 5
    PEER_ERROR = 6
    ACKNOWLEDGED = 7
    """The peer acknowledged all numbers of this side. If this side has ended, its END or ERROR is among them."""
    LIFETIME = 8
    FENCE = 9
    """The peer broke the dialog, and asks what this side has accepted."""
    RENEW = 10
    """The dialog broke, and what the peer has not accepted must be sent again on a new dialog."""
    RENEWED = 11
    """The peer has said what it has accepted, and the rest was sent again on a new dialog."""
    GIVE_UP = 12
    """The peer has said what it has accepted, or does not answer, and there is no new dialog."""
    SETTLE = 13
    """The application ends a broken dialog, and the peer must be asked what it has accepted."""


LOCAL = frozenset({Trigger.SEND, Trigger.END, Trigger.END_WITH_ERROR, Trigger.CLEANUP})
"""Triggers that the application causes. Only these triggers can be refused."""

SO, SI, CO = State.STARTED_OUTBOUND, State.STARTED_INBOUND, State.CONVERSING
DO, DI, ER, CD = State.DISCONNECTED_OUTBOUND, State.DISCONNECTED_INBOUND, State.ERROR, State.CLOSED
FE, FO, SE = State.FENCING, State.FENCING_OUTBOUND, State.SETTLING

TRANSITIONS: dict[tuple[State, Trigger], State] = {
    # This side began the dialog and has sent nothing. The peer does not know of the dialog, so it gets no END or ERROR.
    (SO, Trigger.SEND): CO,
    (SO, Trigger.END): CD,
    (SO, Trigger.END_WITH_ERROR): CD,
    (SO, Trigger.CLEANUP): CD,
    (SO, Trigger.MESSAGE): SO,
    (SO, Trigger.PEER_END): SO,
    (SO, Trigger.PEER_ERROR): ER,
    (SO, Trigger.ACKNOWLEDGED): SO,
    (SO, Trigger.LIFETIME): ER,
    # The peer began the dialog: later messages are held until the first message arrives.
    (SI, Trigger.MESSAGE): CO,
    (SI, Trigger.PEER_END): SI,
    (SI, Trigger.PEER_ERROR): CD,
    (SI, Trigger.ACKNOWLEDGED): SI,
    (SI, Trigger.LIFETIME): CD,
    (SI, Trigger.FENCE): CD,
    (SI, Trigger.END_WITH_ERROR): CD,
    (SI, Trigger.CLEANUP): CD,
    # Conversing.
    (CO, Trigger.SEND): CO,
    (CO, Trigger.END): DO,
    (CO, Trigger.END_WITH_ERROR): DO,
    (CO, Trigger.CLEANUP): CD,
    (CO, Trigger.MESSAGE): CO,
    (CO, Trigger.PEER_END): DI,
    (CO, Trigger.PEER_ERROR): ER,
    (CO, Trigger.ACKNOWLEDGED): CO,
    (CO, Trigger.LIFETIME): ER,
    (CO, Trigger.FENCE): ER,
    (CO, Trigger.RENEW): FE,
    # This side has ended: further messages of the peer are discarded. The peer's END or ERROR closes this side. The
    # peer's acknowledgement of this side's end closes this side, too. If the dialog breaks, the application is told: its last
    # messages may not have been accepted.
    (DO, Trigger.CLEANUP): CD,
    (DO, Trigger.MESSAGE): DO,
    (DO, Trigger.PEER_END): CD,
    (DO, Trigger.PEER_ERROR): ER,
    (DO, Trigger.ACKNOWLEDGED): CD,
    (DO, Trigger.LIFETIME): ER,
    (DO, Trigger.FENCE): CD,
    (DO, Trigger.RENEW): FO,
    # The peer has ended: when this side ends, too, it sends no END or ERROR.
    (DI, Trigger.END): CD,
    (DI, Trigger.END_WITH_ERROR): CD,
    (DI, Trigger.CLEANUP): CD,
    (DI, Trigger.MESSAGE): DI,
    (DI, Trigger.PEER_END): DI,
    (DI, Trigger.PEER_ERROR): ER,
    (DI, Trigger.ACKNOWLEDGED): DI,
    (DI, Trigger.LIFETIME): ER,
    (DI, Trigger.FENCE): DI,
    # The dialog is broken: when this side ends, it sends no END or ERROR.
    (ER, Trigger.END): CD,
    (ER, Trigger.END_WITH_ERROR): CD,
    (ER, Trigger.CLEANUP): CD,
    (ER, Trigger.MESSAGE): ER,
    (ER, Trigger.PEER_END): ER,
    (ER, Trigger.PEER_ERROR): ER,
    (ER, Trigger.ACKNOWLEDGED): ER,
    (ER, Trigger.LIFETIME): CD,
    (ER, Trigger.FENCE): ER,
    (ER, Trigger.RENEW): SE,
    (ER, Trigger.SETTLE): SE,
    # The dialog broke, and the application is not told, because a new dialog will carry it on. Until then it may send, and replies are
    # handled. The peer's END, or an ERROR of its application, carries its last word on what it has accepted.
    (FE, Trigger.SEND): FE,
    (FE, Trigger.END): FO,
    (FE, Trigger.END_WITH_ERROR): SE,
    (FE, Trigger.CLEANUP): CD,
    (FE, Trigger.MESSAGE): FE,
    (FE, Trigger.PEER_END): DI,
    (FE, Trigger.PEER_ERROR): ER,
    (FE, Trigger.ACKNOWLEDGED): FE,
    (FE, Trigger.LIFETIME): FE,
    (FE, Trigger.RENEWED): CD,
    (FE, Trigger.GIVE_UP): ER,
    # The same, after this side has ended.
    (FO, Trigger.CLEANUP): CD,
    (FO, Trigger.MESSAGE): FO,
    (FO, Trigger.PEER_END): CD,
    (FO, Trigger.PEER_ERROR): ER,
    (FO, Trigger.ACKNOWLEDGED): CD,
    (FO, Trigger.LIFETIME): FO,
    (FO, Trigger.RENEWED): CD,
    (FO, Trigger.GIVE_UP): ER,
    # The application was told that the dialog is broken, and has ended this side. It waits for the peer's last word.
    (SE, Trigger.CLEANUP): CD,
    (SE, Trigger.MESSAGE): SE,
    (SE, Trigger.PEER_END): CD,
    (SE, Trigger.PEER_ERROR): CD,
    (SE, Trigger.ACKNOWLEDGED): CD,
    (SE, Trigger.LIFETIME): SE,
    (SE, Trigger.RENEWED): CD,
    (SE, Trigger.GIVE_UP): CD,
    # Over: late records change nothing.
    (CD, Trigger.MESSAGE): CD,
    (CD, Trigger.PEER_END): CD,
    (CD, Trigger.PEER_ERROR): CD,
    (CD, Trigger.ACKNOWLEDGED): CD,
    (CD, Trigger.LIFETIME): CD,
}

TRANSITIONS |= {(state, Trigger.FENCE): state for state in State if (state, Trigger.FENCE) not in TRANSITIONS}

DECIDED = frozenset({Trigger.RENEW, Trigger.RENEWED, Trigger.GIVE_UP, Trigger.SETTLE})
"""Triggers that the owner of a broken dialog decides on. Each is possible only in the states that ``TRANSITIONS`` names."""

REFUSALS: dict[tuple[State, Trigger], LocalCode] = {
    (SI, Trigger.SEND): SEND_REFUSED,
    (SI, Trigger.END): END_REFUSED,
    (DO, Trigger.SEND): SEND_REFUSED,
    (DO, Trigger.END): END_REFUSED,
    (DO, Trigger.END_WITH_ERROR): END_REFUSED,
    (DI, Trigger.SEND): SEND_REFUSED,
    (ER, Trigger.SEND): SEND_REFUSED,
    (FO, Trigger.SEND): SEND_REFUSED,
    (FO, Trigger.END): END_REFUSED,
    (FO, Trigger.END_WITH_ERROR): END_REFUSED,
    (SE, Trigger.SEND): SEND_REFUSED,
    (SE, Trigger.END): END_REFUSED,
    (SE, Trigger.END_WITH_ERROR): END_REFUSED,
    (CD, Trigger.SEND): SEND_REFUSED,
    (CD, Trigger.END): END_REFUSED,
    (CD, Trigger.END_WITH_ERROR): END_REFUSED,
    (CD, Trigger.CLEANUP): END_REFUSED,
}
"""Local triggers that a state refuses, with the code of the error. A refused trigger changes nothing."""

TIMER_STATES = frozenset({SO, CO, DI, ER, FE})
"""States in which a timer may be set. In other states the error is 8458."""

ASKING = frozenset({FE, FO, SE})
"""States in which this side asks the peer what it has accepted."""
OVER: Final = frozenset({DO, ER, CD, FO, SE})
"""States in which the messages of the peer are not given to handlers any more."""
OPEN_STATES = frozenset({SO, CO, FE})
"""States in which this side can still send messages."""


_WHAT = {
    State.STARTED_INBOUND: "its first message has not arrived yet",
    State.DISCONNECTED_OUTBOUND: "this side has ended it",
    State.DISCONNECTED_INBOUND: "the peer has ended it",
    State.ERROR: "it was ended with an error",
    State.CLOSED: "it is over",
    State.FENCING_OUTBOUND: "this side has ended it",
    State.SETTLING: "it broke, and this side has ended it",
}


def refuse(state: State, trigger: Trigger) -> None:
    """Raise an error if this state refuses a local trigger.

    Raises:
        DialogEnded: the trigger is refused; the error has Service Broker's code for the verb.
    """
    code = REFUSALS.get((state, trigger))
    if code is not None:
        verb = trigger.name.replace("_", " ")
        raise DialogEnded(
            f"{verb} is not possible on this dialog: {_WHAT.get(state, state.name)} ({code.number})", code=code
        )


def check_timer(state: State) -> None:
    """Raise an error if no timer may be set in this state.

    Raises:
        DialogEnded: no timer may be set (8458).
    """
    if state not in TIMER_STATES:
        raise DialogEnded(
            f"a timer is not possible on this dialog: {_WHAT.get(state, state.name)} (8458)", code=TIMER_REFUSED
        )
