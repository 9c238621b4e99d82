"""Conversation ids. They are UUIDv7, which contain the time at which they were made."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from conversations.errors import LocalError
from conversations.protocol.codes import HANDLE_NOT_FOUND

RANDOM_BITS = 74
UUID_GROUPS = (8, 4, 4, 4, 12)
"""Number of digits in each part of a UUID's text."""
_SEPARATOR, _TARGET = "@", ":target"


def uuid7(now: int, random: int) -> UUID:
    """Make a UUIDv7 from the time (microseconds since 1970) and 74 random bits (RFC 9562, section 5.7)."""
    value = (now // 1_000 & (1 << 48) - 1) << 80 | 0x7 << 76 | (random >> 62 & 0xFFF) << 64
    return UUID(int=value | 0b10 << 62 | random & (1 << 62) - 1)


def drawn_at(conversation: bytes) -> int | None:
    """Return the time at which a UUIDv7 was made, in microseconds since 1970; None for another kind of UUID."""
    if conversation[6] >> 4 != 7:
        return None
    return int.from_bytes(conversation[:6], "big") * 1_000


def uuid_text(conversation: bytes) -> str:
    """Return the text of a UUID of 16 bytes: the same as ``str(UUID(bytes=conversation))``, but in a quarter of the time."""
    text = conversation.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def read_uuid_text(text: str) -> bytes | None:
    """Return the 16 bytes of a UUID whose text ``uuid_text`` has made; None for every other text."""
    if len(text) != 36:
        return None
    try:
        found = bytes.fromhex(text.replace("-", ""))
    except ValueError:
        return None
    return found if len(found) == 16 and uuid_text(found) == text else None


class Handle(NamedTuple):
    """The name of one side of a dialog for clients. Its text is valid in every process."""

    conversation: bytes
    key: str
    """Key of the group of this side."""
    initiator: bool = True

    @property
    def text(self) -> str:
        """The conversation id, then ``:target`` on the side that accepted the dialog, then ``@`` and the key if it is not that id."""
        name = uuid_text(self.conversation)
        side = "" if self.initiator else _TARGET
        return f"{name}{side}" if self.key == name else f"{name}{side}{_SEPARATOR}{self.key}"


def read_handle(text: str) -> Handle:
    """Read the text of a handle.

    Raises:
        LocalError: the text is not the id of a dialog (8426).
    """
    try:
        name, _, key = text.partition(_SEPARATOR)
        conversation = UUID(name.removesuffix(_TARGET))
    except (ValueError, AttributeError, TypeError):
        raise LocalError(f"{text!r} is not the id of a dialog (8426)", code=HANDLE_NOT_FOUND) from None
    return Handle(conversation.bytes, key or str(conversation), not name.endswith(_TARGET))
