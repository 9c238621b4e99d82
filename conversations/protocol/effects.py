"""Results of an endpoint: what to do with a received envelope, which deadlines have passed, and what to transmit."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from conversations.protocol.envelope import Kind
from conversations.protocol.sequencing import NONE


class Reaction(Enum):
    """The action of the owner of an endpoint after it has received an envelope."""

    DELIVER = 1
    """Run the handler of the message."""
    END = 2
    """The peer ended its side: run ``on_end``."""
    ERROR = 3
    """The peer's application or its worker broke the dialog: run ``on_error``."""
    HOLD = 4
    """Keep the bytes of the envelope, because an earlier envelope is missing."""
    DISCARD = 5
    """Call no handler, because the dialog is over on this side. The bytes of a message become a dead letter."""
    DUPLICATE = 6
    """Drop the envelope, because it took effect before, or is held already."""
    OVERFLOW = 7
    """End the dialog with an error. The envelope cannot be held, because too many are held or its number is too far ahead."""
    RESEND = 8
    """Transmit the envelopes after the acknowledged number again. If this side does not keep them, end the dialog with an error."""
    NOTHING = 9
    """Do nothing more. The endpoint has already applied the acknowledgement in the envelope."""
    DROP = 10
    """Drop the envelope, because the dialog is over on this side. The sender keeps its bytes."""
    FENCE = 11
    """Tell the peer what this side has accepted. If the dialog has just broken, run ``on_error``."""
    RENEW = 12
    """The dialog broke: ask the peer what it has accepted, to send the rest again on a new dialog."""
    ANSWERED = 13
    """The peer has said what it has accepted: send the rest again, or run ``on_error``, or close this side."""


class Due(Enum):
    """The kind of a deadline."""

    LIFETIME = 1
    TIMER = 2
    ACK = 3
    RESEND = 4
    GAP = 5
    """A message is still missing after the last RESEND that this side may send."""
    BROKEN = 6
    """The dialog broke before a restart, and ``on_error`` did not finish."""
    FENCE = 7
    """The peer must be asked, or asked again, what it has accepted."""
    RENEW = 8
    """The lifetime is over: ask the peer what it has accepted, to send the rest again on a new dialog."""
    RETRANSMIT = 9
    """The peer is on another cluster, and has not acknowledged for a while: transmit again."""


class Transmit(NamedTuple):
    """An envelope without a body that the owner must transmit."""

    kind: Kind
    seq: int = NONE
    code: int = 0
    description: str = ""


class Failure(NamedTuple):
    """The error that broke a dialog."""

    code: int
    description: str
