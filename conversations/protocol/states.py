"""The states of an endpoint and every transition between them.

Rules of the house: whatever changes an endpoint's state is a row of ``TRANSITIONS``, and nothing outside
``Endpoint._move`` assigns one. Every (state, event) is either a row of ``TRANSITIONS`` or of ``REFUSALS``; a test holds
this file to it, and ``docs/protocol.md`` draws its diagram from it.

The table does not say what travels: that is ``endpoint.py``. States are those of Service Broker's conversation endpoints.
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


class Event(IntEnum):
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


LOCAL = frozenset({Event.SEND, Event.END, Event.END_WITH_ERROR, Event.CLEANUP})
"""Events the application causes; these can be refused, the others only happen."""

SO, SI, CO = State.STARTED_OUTBOUND, State.STARTED_INBOUND, State.CONVERSING
DO, DI, ER, CD = State.DISCONNECTED_OUTBOUND, State.DISCONNECTED_INBOUND, State.ERROR, State.CLOSED

TRANSITIONS: dict[tuple[State, Event], State] = {
    # Begun here, nothing sent: ending leaves nothing to tell anybody.
    (SO, Event.SEND): CO,
    (SO, Event.END): CD,
    (SO, Event.END_WITH_ERROR): CD,
    (SO, Event.CLEANUP): CD,
    (SO, Event.MESSAGE): SO,
    (SO, Event.PEER_END): SO,
    (SO, Event.PEER_ERROR): ER,
    (SO, Event.ACKNOWLEDGED): SO,
    (SO, Event.LIFETIME): ER,
    # Begun by the peer: its messages are held until the first one is here.
    (SI, Event.MESSAGE): CO,
    (SI, Event.PEER_END): SI,
    (SI, Event.PEER_ERROR): CD,
    (SI, Event.ACKNOWLEDGED): SI,
    (SI, Event.LIFETIME): CD,
    (SI, Event.END_WITH_ERROR): CD,
    (SI, Event.CLEANUP): CD,
    # Conversing.
    (CO, Event.SEND): CO,
    (CO, Event.END): DO,
    (CO, Event.END_WITH_ERROR): DO,
    (CO, Event.CLEANUP): CD,
    (CO, Event.MESSAGE): CO,
    (CO, Event.PEER_END): DI,
    (CO, Event.PEER_ERROR): ER,
    (CO, Event.ACKNOWLEDGED): CO,
    (CO, Event.LIFETIME): ER,
    # Ended here: what the peer sent before it knew is discarded; its END crossed ours, or it acknowledged.
    (DO, Event.CLEANUP): CD,
    (DO, Event.MESSAGE): DO,
    (DO, Event.PEER_END): CD,
    (DO, Event.PEER_ERROR): CD,
    (DO, Event.ACKNOWLEDGED): CD,
    (DO, Event.LIFETIME): CD,
    # Ended by the peer: ending here sends nothing.
    (DI, Event.END): CD,
    (DI, Event.END_WITH_ERROR): CD,
    (DI, Event.CLEANUP): CD,
    (DI, Event.MESSAGE): DI,
    (DI, Event.PEER_END): DI,
    (DI, Event.PEER_ERROR): ER,
    (DI, Event.ACKNOWLEDGED): DI,
    (DI, Event.LIFETIME): ER,
    # Broken: ending here sends nothing.
    (ER, Event.END): CD,
    (ER, Event.END_WITH_ERROR): CD,
    (ER, Event.CLEANUP): CD,
    (ER, Event.MESSAGE): ER,
    (ER, Event.PEER_END): ER,
    (ER, Event.PEER_ERROR): ER,
    (ER, Event.ACKNOWLEDGED): ER,
    (ER, Event.LIFETIME): CD,
    # Over: late records change nothing.
    (CD, Event.MESSAGE): CD,
    (CD, Event.PEER_END): CD,
    (CD, Event.PEER_ERROR): CD,
    (CD, Event.ACKNOWLEDGED): CD,
    (CD, Event.LIFETIME): CD,
}

REFUSALS: dict[tuple[State, Event], int] = {
    (SI, Event.SEND): SEND_REFUSED,
    (SI, Event.END): END_REFUSED,
    (DO, Event.SEND): SEND_REFUSED,
    (DO, Event.END): END_REFUSED,
    (DO, Event.END_WITH_ERROR): END_REFUSED,
    (DI, Event.SEND): SEND_REFUSED,
    (ER, Event.SEND): SEND_REFUSED,
    (CD, Event.SEND): SEND_REFUSED,
    (CD, Event.END): END_REFUSED,
    (CD, Event.END_WITH_ERROR): END_REFUSED,
    (CD, Event.CLEANUP): END_REFUSED,
}
"""Local events that a state does not allow, with the error raised; nothing changes."""

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


def refuse(state: State, event: Event) -> None:
    """Raise what a local event is refused with in this state, if it is.

    Raises:
        DialogEnded: with Service Broker's code for the verb.
    """
    code = REFUSALS.get((state, event))
    if code is not None:
        verb = event.name.replace("_", " ")
        raise DialogEnded(f"{verb} is not possible on this dialog: {_WHAT.get(state, state.name)} ({code})", code=code)


def check_timer(state: State) -> None:
    """Raise when no timer may be set in this state.

    Raises:
        DialogEnded: 8458.
    """
    if state not in TIMER_STATES:
        raise DialogEnded(f"no timer on this dialog: {_WHAT.get(state, state.name)} (8458)", code=TIMER_REFUSED)
