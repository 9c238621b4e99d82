"""The operation of the hot path: each message of a handler makes one. It has a module of its own, because it is compiled, and the other operations are not."""

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
