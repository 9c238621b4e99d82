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


def _row(*parts: bytes | bool) -> bytes:
    digest = blake2b(digest_size=16)
    for part in parts:
        data = bytes([part]) if isinstance(part, bool) else part
        digest.update(len(data).to_bytes(4, "big") + data)
    return rows.COMMAND + digest.digest() + b"\0"
