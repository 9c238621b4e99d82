"""Pending messages: what a side has sent, and its peer has not acknowledged."""

from __future__ import annotations

from typing import Any

from conversations.bodies import codec_of
from conversations.handlers import Side
from conversations.protocol.envelope import Envelope


class PendingMessage:
    """A message that this side has sent, and that the peer has not acknowledged.

    The peer may have accepted it all the same, because the acknowledgement may be on its way (seed 000). So do not send it again yourself:
    ``dialog.resend()`` asks the peer first.
    """

    __slots__ = ("_envelope", "_side")

    def __init__(self, envelope: Envelope, side: Side) -> None:
        self._envelope = envelope
        self._side = side

    def __repr__(self) -> str:
        return f"PendingMessage({self.type}, sequence {self.sequence})"

    @property
    def type(self) -> str:
        """Name of the message type."""
        return self._envelope.message_type

    @property
    def sequence(self) -> int:
        """Number of the message on its dialog, from 0."""
        return self._envelope.seq

    @property
    def raw(self) -> bytes:
        """The body as bytes, as it was sent."""
        return self._envelope.body

    @property
    def body(self) -> Any:
        """The body, decoded like a received one.

        Raises:
            NotInContract, WrongDirection: this release does not send this message type (8431, 8432, 8434).
            InvalidBody: the body does not fit its message type in this release (9615).
        """
        declared = self._side.contract.outgoing(None, self.type, self._side.initiator)
        return self._side.upgrades.decode(codec_of(declared), self._envelope.content_type, self.raw)
