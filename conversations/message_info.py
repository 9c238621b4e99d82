"""Facts about the message that a handler works on."""

from __future__ import annotations

from datetime import UTC, datetime

from conversations.errors import LocalError
from conversations.protocol.endpoint import NEVER, Endpoint
from conversations.protocol.envelope import Envelope
from conversations.protocol.identifiers import uuid_text
from conversations.protocol.times import moment


class MessageInfo:
    """Facts about the message being handled."""

    __slots__ = ("_edited", "_endpoint", "_envelope", "attempt")

    def __init__(self, endpoint: Endpoint, envelope: Envelope | None, attempt: int, edited: str) -> None:
        self._endpoint = endpoint
        self._envelope = envelope
        self._edited = edited
        self.attempt = attempt
        """Number of this run: 1 for the first run of the handler, and one more after each failed run."""

    @property
    def _received(self) -> Envelope:
        if self._envelope is None:
            raise LocalError("no message is being handled: this is a timer, or an error found on this side")
        return self._envelope

    @property
    def id(self) -> str:
        """Id of the message, the same in each run of its handler. Use it as the idempotency key for effects outside Kafka.

        A message that was sent again on a new dialog (``resend``) keeps the id that it had on the first dialog. An edited message has a new id:
        the old id, a colon, and the id of the operator's command.
        """
        endpoint, received = self._endpoint, self._received
        side = "t" if endpoint.initiator else "i"
        origin = received.extras.origin if received.extras is not None else None
        conversation, number = (
            (endpoint.conversation, received.seq) if origin is None else (origin.conversation_id, origin.seq)
        )
        name = f"{uuid_text(conversation)}:{side}:{number}"
        return f"{name}:{self._edited}" if self._edited else name

    @property
    def type(self) -> str:
        """Name of the message type."""
        return self._received.message_type

    @property
    def sequence(self) -> int:
        """Number of the message in its direction, from 0."""
        return self._received.seq

    @property
    def sent_at(self) -> datetime:
        """Time at which the sender's worker transmitted the message."""
        return moment(self._received.sent_at)

    @property
    def expires_at(self) -> datetime:
        """End of the dialog's lifetime; ``datetime.max`` in UTC if the lifetime is unlimited."""
        expires_at = self._endpoint.expires_at
        return datetime.max.replace(tzinfo=UTC) if expires_at >= NEVER else moment(expires_at)

    @property
    def from_service(self) -> str:
        """Name of the peer service."""
        return self._endpoint.peer
