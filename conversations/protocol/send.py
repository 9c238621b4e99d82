"""The operations that send a message. They have a module of their own, because it is compiled, and the other operations are not: each message of a handler makes one."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Send:
    """Send one message. Its body is encoded as its message type requires."""

    message_type: str
    content_type: str
    body: bytes
    run: bytes = field(default=b"", compare=False, repr=False)
    """The encoded names (``message_run``), if they are known; empty if they are encoded when the message is transmitted."""


@dataclass(slots=True)
class SendFromPieces(Send):
    """Send one large message, whose body stays in the pieces of its command. So ``body`` is empty."""

    command_id: bytes = b""
    start: int = 0
    """Position of the body in the encoded command."""
    size: int = 0
    """Bytes of the body."""
