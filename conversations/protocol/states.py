"""The states of an endpoint and every transition between them.

Rules of the house: whatever changes an endpoint's state is a row of ``TRANSITIONS``, and nothing outside
``Endpoint._move`` assigns one. Every (state, trigger) is either a row of ``TRANSITIONS`` or of ``REFUSALS``; a test holds
this file to it, and ``docs/protocol.md`` draws its diagram from it.

The table does not say what travels: that is ``endpoint.py``. The states are the states of Service Broker's conversation endpoints.
"""

from __future__ import annotations

from enum import IntEnum

from conversations.errors import DialogEnded
from conversations.protocol.codes import END_REFUSED, SEND_REFUSED, TIMER_REFUSED


class State(IntEnum):
    """Where one side of a dialog stands."""

    STARTED_OUTBOUND = 0
    """Begun here; nothing sent yet."""
    STARTED_INBOUND = 1
    """Begun by the peer; its first message has not arrived yet, later ones have."""
    CONVERSING = 2
    DISCONNECTED_OUTBOUND = 3
    """Ended here; the peer has not acknowledged it yet."""
    DISCONNECTED_INBOUND = 4
    """Ended by the peer; not ended here yet."""
    ERROR = 5
    """Broken: by the peer's error, the broker's, or the lifetime; not ended here yet."""
    CLOSED = 6
    """Over on this side; a tombstone remembers it."""


class Trigger(IntEnum):
    """What can happen to an endpoint."""

    SEND = 0
    END = 1
    END_WITH_ERROR = 2
    CLEANUP = 3
    MESSAGE = 4
    """A message of the peer was accepted in order."""
    PEER_END = 5
    PEER_ERROR = 6
    ACKNOWLEDGED = 7
    """The peer acknowledged everything, our END or ERROR included."""
    LIFETIME = 8


LOCAL = frozenset({Trigger.SEND, Trigger.END, Trigger.END_WITH_ERROR, Trigger.CLEANUP})
"""Triggers the application causes; these can be refused, the others only happen."""

SO, SI, CO = State.STARTED_OUTBOUND, State.STARTED_INBOUND, State.CONVERSING
DO, DI, ER, CD = State.DISCONNECTED_OUTBOUND, State.DISCONNECTED_INBOUND, State.ERROR, State.CLOSED

TRANSITIONS: dict[tuple[State, Trigger], State] = {
    # Begun here, nothing sent: ending leaves nothing to tell anybody.
    (SO, Trigger.SEND): CO,
    (SO, Trigger.END): CD,
    (SO, Trigger.END_WITH_ERROR): CD,
    (SO, Trigger.CLEANUP): CD,
    (SO, Trigger.MESSAGE): SO,
    (SO, Trigger.PEER_END): SO,
    (SO, Trigger.PEER_ERROR): ER,
    (SO, Trigger.ACKNOWLEDGED): SO,
    (SO, Trigger.LIFETIME): ER,
    # Begun by the peer: its messages are held until the first one is here.
    (SI, Trigger.MESSAGE): CO,
    (SI, Trigger.PEER_END): SI,
    (SI, Trigger.PEER_ERROR): CD,
    (SI, Trigger.ACKNOWLEDGED): SI,
    (SI, Trigger.LIFETIME): CD,
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
    # Ended here: what the peer sent before it knew is discarded; its END crossed ours, or it acknowledged.
    (DO, Trigger.CLEANUP): CD,
    (DO, Trigger.MESSAGE): DO,
    (DO, Trigger.PEER_END): CD,
    (DO, Trigger.PEER_ERROR): CD,
    (DO, Trigger.ACKNOWLEDGED): CD,
    (DO, Trigger.LIFETIME): CD,
    # Ended by the peer: ending here sends nothing.
    (DI, Trigger.END): CD,
    (DI, Trigger.END_WITH_ERROR): CD,
    (DI, Trigger.CLEANUP): CD,
    (DI, Trigger.MESSAGE): DI,
    (DI, Trigger.PEER_END): DI,
    (DI, Trigger.PEER_ERROR): ER,
    (DI, Trigger.ACKNOWLEDGED): DI,
    (DI, Trigger.LIFETIME): ER,
    # Broken: ending here sends nothing.
    (ER, Trigger.END): CD,
    (ER, Trigger.END_WITH_ERROR): CD,
    (ER, Trigger.CLEANUP): CD,
    (ER, Trigger.MESSAGE): ER,
    (ER, Trigger.PEER_END): ER,
    (ER, Trigger.PEER_ERROR): ER,
    (ER, Trigger.ACKNOWLEDGED): ER,
    (ER, Trigger.LIFETIME): CD,
    # Over: late records change nothing.
    (CD, Trigger.MESSAGE): CD,
    (CD, Trigger.PEER_END): CD,
    (CD, Trigger.PEER_ERROR): CD,
    (CD, Trigger.ACKNOWLEDGED): CD,
    (CD, Trigger.LIFETIME): CD,
}

REFUSALS: dict[tuple[State, Trigger], int] = {
    (SI, Trigger.SEND): SEND_REFUSED,
    (SI, Trigger.END): END_REFUSED,
    (DO, Trigger.SEND): SEND_REFUSED,
    (DO, Trigger.END): END_REFUSED,
    (DO, Trigger.END_WITH_ERROR): END_REFUSED,
    (DI, Trigger.SEND): SEND_REFUSED,
    (ER, Trigger.SEND): SEND_REFUSED,
    (CD, Trigger.SEND): SEND_REFUSED,
    (CD, Trigger.END): END_REFUSED,
    (CD, Trigger.END_WITH_ERROR): END_REFUSED,
    (CD, Trigger.CLEANUP): END_REFUSED,
}
"""Local triggers that a state does not allow, with the error raised; nothing changes."""

TIMER_STATES = frozenset({SO, CO, DI, ER})
"""States in which a timer may be set (8458 elsewhere)."""

OPEN_STATES = frozenset({SO, CO})
"""States in which the dialog can still be spoken on from this side."""


_WHAT = {
    State.STARTED_INBOUND: "its first message has not arrived yet",
    State.DISCONNECTED_OUTBOUND: "this side has ended it",
    State.DISCONNECTED_INBOUND: "the peer has ended it",
    State.ERROR: "it was ended with an error",
    State.CLOSED: "it is over",
}


def refuse(state: State, trigger: Trigger) -> None:
    """Raise the error of a local trigger that this state refuses.

    Raises:
        DialogEnded: with Service Broker's code for the verb.
    """
    code = REFUSALS.get((state, trigger))
    if code is not None:
        verb = trigger.name.replace("_", " ")
        raise DialogEnded(f"{verb} is not possible on this dialog: {_WHAT.get(state, state.name)} ({code})", code=code)


def check_timer(state: State) -> None:
    """Raise when no timer may be set in this state.

    Raises:
        DialogEnded: 8458.
    """
    if state not in TIMER_STATES:
        raise DialogEnded(f"no timer on this dialog: {_WHAT.get(state, state.name)} (8458)", code=TIMER_REFUSED)
