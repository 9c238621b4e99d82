"""What an envelope holds: the records of ``conversations/schemas/envelope.v1.avsc`` as dataclasses (design decision 0004)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Kind(IntEnum):
    """What an envelope is; the numbers are Avro's, in the order of the schema's symbols."""

    MESSAGE = 0
    END = 1
    ERROR = 2
    ACK = 3
    RESEND = 4
    FENCE = 5
    FENCED = 6


@dataclass(slots=True)
class Prefix:
    """The fields that are constant per dialog and direction; times in microseconds since 1970, ``expires_at`` -1 is unlimited."""

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
    """Where a resent message was sent first: the dialog its id names, which replacement this is, its number there."""

    conversation_id: bytes
    generation: int
    seq: int


@dataclass(slots=True)
class Seal:
    """What AES-256-GCM added: the name of the key, the nonce, the tag."""

    key_id: str
    nonce: bytes
    tag: bytes


@dataclass(slots=True)
class FenceOutcome:
    """The answer of a fenced endpoint: its last accepted and last transmitted numbers, -1 none, and its end."""

    accepted: int
    transmitted: int
    outcome: str
    dead_lettered: bool


@dataclass(slots=True)
class Extras:
    """What few envelopes carry."""

    origin: Origin | None = None
    seal: Seal | None = None
    fence: FenceOutcome | None = None


@dataclass(slots=True)
class Envelope:
    """One record of a queue topic; numbers are -1 when there is none, ``sent_at`` is microseconds since 1970."""

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
