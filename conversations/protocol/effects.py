"""The answers of an endpoint: to an envelope, to the time, and the envelopes to transmit."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from conversations.protocol.envelope import Kind
from conversations.protocol.sequencing import NONE


class Reaction(Enum):
    """The owner's task with a received envelope."""

    DELIVER = 1
    """Run the handler of the message."""
    END = 2
    """The peer ended: run ``on_end``."""
    ERROR = 3
    """The peer, or the broker for it, broke the dialog: run ``on_error``."""
    HOLD = 4
    """Keep its bytes; something before it is missing."""
    DISCARD = 5
    """Drop it: the dialog is over on this side, and the peer is told or knows."""
    DUPLICATE = 6
    """Drop it: it took effect before."""
    OVERFLOW = 7
    """Too many are held: the dialog ends with an error."""
    RESEND = 8
    """The peer misses something that is not kept here: the dialog ends with an error."""
    NOTHING = 9
    """Only numbers moved."""


class Due(Enum):
    """The kind of a deadline."""

    LIFETIME = 1
    TIMER = 2
    ACK = 3
    RESEND = 4
    GAP = 5
    """The peer was asked often enough for missing messages."""
    BROKEN = 6
    """A restart interrupted ``on_error``."""


class Transmit(NamedTuple):
    """A record without a body that the endpoint wants on the wire."""

    kind: Kind
    seq: int = NONE
    code: int = 0
    description: str = ""


class Failure(NamedTuple):
    """Why a dialog is broken."""

    code: int
    description: str
