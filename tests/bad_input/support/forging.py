"""Forged records: records that no worker would write."""

import dataclasses
from dataclasses import dataclass, field, replace
from random import Random
from uuid import UUID

from conversations.errors import UndecodableRecord
from conversations.ports import Headers
from conversations.protocol.command import Command, Operation, decode_command, encode_command, topic_for
from conversations.protocol.envelope import (
    Envelope,
    Kind,
    Prefix,
    encode,
    encode_long,
    encode_prefix,
)
from conversations.protocol.identifiers import uuid7
from conversations.protocol.topics import COMMANDS, partition_of
from tests.bad_input.support.services import PARTITIONS

HOUR = 3_600_000_000
DAY = 24 * HOUR


@dataclass(frozen=True)
class Forged:
    """A forged record, as it is appended to a partition."""

    key: bytes | None
    value: bytes | None
    headers: Headers | None
    partition: int = 0


@dataclass
class Known:
    """The data of a dialog from ``web`` to ``shop`` that a forger needs, and functions that forge its records."""

    prefix: Prefix
    now: int
    next: int = 0
    random: Random = field(default_factory=lambda: Random(7))

    @property
    def conversation(self) -> UUID:
        return UUID(bytes=self.prefix.conversation_id)

    @property
    def key(self) -> bytes:
        """Key of the shop's endpoint of the dialog."""
        return str(self.conversation).encode()

    def message(self, body: bytes = b'{"n": 7}', message_type: str = "Order", **fields: object) -> Envelope:
        """Return the next message of the dialog, with the given fields replaced."""
        json = "application/json"
        genuine = Envelope(
            self.prefix, Kind.MESSAGE, self.next, -1, sent_at=self.now, message_type=message_type, content_type=json, body=body
        )  # fmt: skip
        return replace(genuine, **fields)  # type: ignore[arg-type]

    def said(self, kind: Kind, **fields: object) -> Envelope:
        """Return an envelope of another kind."""
        return replace(Envelope(self.prefix, kind, -1, -1, sent_at=self.now), **fields)  # type: ignore[arg-type]

    def prefixed(self, **fields: object) -> Envelope:
        """Return the next message, with the given fields of its prefix replaced."""
        return self.message(prefix=replace(self.prefix, **fields))  # type: ignore[arg-type]

    def record(self, envelope: Envelope, **fields: object) -> Forged:
        """Return the record of an envelope. It is correct, except for the given fields of ``Forged``."""
        return self.raw(encode(envelope), **fields)

    def raw(self, value: bytes | None, **fields: object) -> Forged:
        """Return a record with this value. Its key is correct, except for the given fields of ``Forged``."""
        return dataclasses.replace(Forged(self.key, value, None), **fields)  # type: ignore[arg-type]

    def start(self) -> bytes:
        """Return the bytes with which every record of the dialog begins."""
        return encode_prefix(self.prefix)

    def command(self, *operations: Operation, **fields: object) -> Forged:
        """Return a command of a client of ``web`` for this dialog, with the given fields replaced."""
        drawn = self.random.randbytes(16)
        genuine = Command(drawn, self.conversation.bytes, True, self.key.decode(), "", "web", self.now, operations)
        command = replace(genuine, **fields)  # type: ignore[arg-type]
        key = command.key.encode()
        return Forged(key, encode_command(command), None, partition_of(key, PARTITIONS))


def stranger(now: int, random: Random, partition: int = 0) -> Known:
    """Return a dialog that no service knows yet; its key belongs to the given partition."""
    conversation = draw(now, random, partition)
    name = str(conversation)
    return Known(Prefix(conversation.bytes, True, "Trade", "web", "shop", name, False, now + HOUR, now + DAY), now)


def draw(now: int, random: Random, partition: int = 0) -> UUID:
    while True:
        conversation = uuid7(now, random.getrandbits(74))
        if partition_of(str(conversation).encode(), PARTITIONS) == partition:
            return conversation


def forged_length(value: bytes, at: int, length: int = 1 << 40) -> bytes:
    """Replace the one-byte length at position ``at`` by a forged length."""
    return value[:at] + encode_long(length) + value[at + 1 :]


def kind_for(record: Forged) -> str:
    """Return the kind of topic that a command is for: that of clients if its bytes are no command."""
    try:
        return topic_for(decode_command(record.value or b""))
    except UndecodableRecord:
        return COMMANDS
