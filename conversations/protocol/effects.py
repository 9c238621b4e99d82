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
    """End the dialog with an error. The peer asks for an envelope again, but this side does not keep sent envelopes."""
    NOTHING = 9
    """Do nothing more. The endpoint has already applied the acknowledgement in the envelope."""


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
