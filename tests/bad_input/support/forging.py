"""Making records as nobody's worker would write them."""

import dataclasses
from dataclasses import dataclass, field, replace
from random import Random
from uuid import UUID

from conversations.ports import Headers
from conversations.protocol.command import Command, Operation, encode_command
from conversations.protocol.envelope import (
    HEADER_NAME,
    Envelope,
    Kind,
    Prefix,
    encode,
    encode_long,
    encode_prefix,
    header_of,
    tail_start,
)
from conversations.protocol.identifiers import uuid7
from conversations.protocol.topics import partition_of
from tests.bad_input.support.services import PARTITIONS

HOUR = 3_600_000_000
DAY = 24 * HOUR


@dataclass(frozen=True)
class Forged:
    """A record as it is appended."""

    key: bytes | None
    value: bytes | None
    headers: Headers | None
    partition: int = 0


@dataclass
class Known:
    """What a forger knows of a dialog from ``web`` to ``shop``."""

    prefix: Prefix
    now: int
    next: int = 0
    random: Random = field(default_factory=lambda: Random(7))

    @property
    def conversation(self) -> UUID:
        return UUID(bytes=self.prefix.conversation_id)

    @property
    def key(self) -> bytes:
        """The shop's key of the dialog."""
        return str(self.conversation).encode()

    def message(self, body: bytes = b'{"n": 7}', message_type: str = "Order", **fields: object) -> Envelope:
        """The next message of the dialog, with these fields instead."""
        json = "application/json"
        genuine = Envelope(
            self.prefix, Kind.MESSAGE, self.next, -1, sent_at=self.now, message_type=message_type, content_type=json, body=body
        )  # fmt: skip
        return replace(genuine, **fields)  # type: ignore[arg-type]

    def said(self, kind: Kind, **fields: object) -> Envelope:
        """A record of another kind."""
        return replace(Envelope(self.prefix, kind, -1, -1, sent_at=self.now), **fields)  # type: ignore[arg-type]

    def prefixed(self, **fields: object) -> Envelope:
        """The next message, of a prefix with these fields instead."""
        return self.message(prefix=replace(self.prefix, **fields))  # type: ignore[arg-type]

    def record(self, envelope: Envelope, **fields: object) -> Forged:
        """The record of an envelope, right in everything but these fields."""
        value = encode(envelope)
        return self.raw(value, **{"headers": [(HEADER_NAME, header_of(value, tail_start(value)))], **fields})  # type: ignore[arg-type]

    def raw(self, value: bytes | None, headers: Headers | None = None, **fields: object) -> Forged:
        """A record of these bytes, right in everything but these fields."""
        given = headers if headers is not None else [(HEADER_NAME, self.header())]
        return dataclasses.replace(Forged(self.key, value, given), **fields)  # type: ignore[arg-type]

    def header(self, **fields: object) -> bytes:
        """The header that a message with these fields has."""
        value = encode(self.message(**fields))  # type: ignore[arg-type]
        return header_of(value, tail_start(value))

    def start(self) -> bytes:
        """The bytes every record of the dialog begins with."""
        return encode_prefix(self.prefix)

    def command(self, *operations: Operation, **fields: object) -> Forged:
        """A command of a client of ``web``, for this dialog."""
        drawn = self.random.randbytes(16)
        genuine = Command(drawn, self.conversation.bytes, True, self.key.decode(), "", "web", self.now, operations)
        command = replace(genuine, **fields)  # type: ignore[arg-type]
        key = command.key.encode()
        return Forged(key, encode_command(command), None, partition_of(key, PARTITIONS))


def stranger(now: int, random: Random, partition: int = 0) -> Known:
    """A dialog nobody has heard of; its keys belong to this partition."""
    conversation = draw(now, random, partition)
    name = str(conversation)
    return Known(Prefix(conversation.bytes, True, "Trade", "web", "shop", name, False, now + HOUR, now + DAY), now)


def draw(now: int, random: Random, partition: int = 0) -> UUID:
    while True:
        conversation = uuid7(now, random.getrandbits(74))
        if partition_of(str(conversation).encode(), PARTITIONS) == partition:
            return conversation


def forged_length(value: bytes, at: int, length: int = 1 << 40) -> bytes:
    """Replace the one-byte length at ``at`` by another."""
    return value[:at] + encode_long(length) + value[at + 1 :]
