"""Keys of the rows that keep a repetition of a command, or of a peer's notice, from taking effect a second time."""

from __future__ import annotations

from hashlib import blake2b

from conversations.protocol import rows


def begun(conversation: bytes, initiator: bool) -> bytes:
    """Return the key of the row for a command that began a dialog."""
    return _row(b"begin", conversation, initiator)


def keyed(conversation: bytes, initiator: bool, key: str) -> bytes:
    """Return the key of the row for a command with an idempotency key."""
    return _row(b"key", conversation, initiator, key.encode())


def skipped(own: bytes, number: int) -> bytes:
    """Return the key of the row for a notice that the peer skipped a message; ``own`` is the identity of this side."""
    return _row(b"skipped", own, b"%d" % number)


def joined(command_id: bytes) -> bytes:
    """Return the key of the row for a command that came in pieces."""
    return _row(b"joined", command_id)


def piece(command_id: bytes, index: int) -> bytes:
    """Return the key of the row that keeps a piece of a command."""
    name = blake2b(command_id, digest_size=_NAME, person=b"piece").digest()
    return rows.COMMAND + name + index.to_bytes(4, "big") + _PIECE


def count(command_id: bytes) -> bytes:
    """Return the key of the row that counts what refers to the pieces of a command. It is one of the keys of pieces, behind all others."""
    return piece(command_id, _COUNT)


def is_count(key: bytes) -> bool:
    """Return True for a key of ``count``."""
    return is_piece(key) and key[1 + _NAME : -1] == _COUNT.to_bytes(4, "big")


def is_piece(key: bytes) -> bool:
    """Return True for a key of ``piece``."""
    return key[:1] == rows.COMMAND and key[-1:] == _PIECE


def command_of(key: bytes) -> bytes:
    """Return the part of a key of ``piece`` that all pieces of the command share."""
    return key[1 : 1 + _NAME]


_NAME = 12
"""Bytes of the digest of a command's id in the key of a piece. With it, the key has the size of all keys of repetitions."""
_COUNT = (1 << 32) - 1
_PIECE = b"\1"
"""Last byte of the key of a piece. The other keys end with a zero."""


def _row(*parts: bytes | bool) -> bytes:
    digest = blake2b(digest_size=16)
    for part in parts:
        data = bytes([part]) if isinstance(part, bool) else part
        digest.update(len(data).to_bytes(4, "big") + data)
    return rows.COMMAND + digest.digest() + b"\0"
