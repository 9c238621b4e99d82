"""Contents: what two commands must have in common to be the same command that was sent twice.

The digest of a command is that of its encoding without its id, its sender and its time. A large command comes in pieces, and its digest is computed
while they come, because at the end it would take a long time at once.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from typing import Any

from conversations.protocol.command import Command, encode_command, head_of
from conversations.protocol.limits import COMMAND_BYTES

_SIZE = 8


def digest_of(command: Command) -> bytes:
    """Return the digest of a command."""
    return blake2b(encode_command(_plain(command)), digest_size=_SIZE).digest()


class Digest:
    """The digest of a command whose encoding comes in parts."""

    __slots__ = ("_first", "_hash")

    def __init__(self) -> None:
        self._hash: Any = None
        self._first = b""
        """The parts that have come, until they have the head of the command."""

    def add(self, part: bytes | memoryview) -> None:
        """Add the next part."""
        if self._hash is not None:
            self._hash.update(part)
        elif len(self._first) <= COMMAND_BYTES:
            self._first += part
            self._begin()

    def finish(self) -> bytes:
        """Return the digest; b"" if the parts do not begin as this release writes a command."""
        return b"" if self._hash is None else self._hash.digest()

    def _begin(self) -> None:
        if (found := head_of(self._first)) is None:
            return
        head, at = found
        # The last byte of this encoding is the empty list of operations, in whose place the operations are.
        self._hash = blake2b(encode_command(_plain(head))[:-1], digest_size=_SIZE)
        self._hash.update(memoryview(self._first)[at:])
        self._first = b""


def _plain(command: Command) -> Command:
    return replace(command, command_id=bytes(16), issued_by="", issued_at=0)
