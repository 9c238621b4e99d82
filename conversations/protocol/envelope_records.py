"""The envelope and its parts: the records of ``conversations/schemas/envelope.v1.avsc`` as dataclasses (design decision 0004)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Kind(IntEnum):
    """The kind of an envelope. Each number is the position of the symbol in the Avro schema."""

    MESSAGE = 0
    END = 1
    ERROR = 2
    ACK = 3
    RESEND = 4
    FENCE = 5
    FENCED = 6


@dataclass(slots=True)
class Prefix:
    """The fields that are constant for a dialog and direction.

    Times are in microseconds since 1970; an ``expires_at`` of -1 means an unlimited lifetime.
    """

    conversation_id: bytes
    from_initiator: bool
    contract: str
    from_service: str
    to_service: str
    reply_key: str
    resends: bool
    accept_until: int
    expires_at: int


@dataclass(slots=True)
class Origin:
    """The dialog on which a resent message was sent first, and the message's number on that dialog.

    ``generation`` is 1 for the first replacement of that dialog.
    """

    conversation_id: bytes
    generation: int
    seq: int


@dataclass(slots=True)
class Seal:
    """The results of AES-256-GCM encryption: the name of the key, the nonce and the tag."""

    key_id: str
    nonce: bytes
    tag: bytes


@dataclass(slots=True)
class FenceOutcome:
    """The answer of a fenced endpoint: its last accepted number, its last transmitted number (-1 for none), and how the endpoint ended."""

    accepted: int
    transmitted: int
    outcome: str
    dead_lettered: bool


@dataclass(slots=True)
class Extras:
    """Fields that only few envelopes have."""

    origin: Origin | None = None
    seal: Seal | None = None
    fence: FenceOutcome | None = None


@dataclass(slots=True)
class Envelope:
    """One record of a queue topic. A number of -1 means none; ``sent_at`` is in microseconds since 1970."""

    prefix: Prefix
    kind: Kind
    seq: int
    ack: int
    transmitted: int = -1
    skipped: tuple[int, ...] = ()
    sent_at: int = 0
    message_type: str = ""
    code: int = 0
    description: str = ""
    fragment: int = 0
    fragments: int = 1
    content_type: str = ""
    body: bytes = b""
    extras: Extras | None = None
