"""The digests by which services remember what they handled, in which order."""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import sha256
from typing import NamedTuple


class Numbered(NamedTuple):
    """The body of an entry or receipt: its number in the dialog, and its text (pad or digest)."""

    n: int
    text: str


class NotABody(Exception):
    """The bytes are no entry and no receipt."""


def entry(body: bytes) -> Numbered:
    """Read the body of an entry.

    Raises:
        NotABody: it is none.
    """
    return _read(body, "pad")


def receipt(body: bytes) -> Numbered:
    """Read the body of a receipt.

    Raises:
        NotABody: it is none.
    """
    return _read(body, "digest")


def _read(body: bytes, text: str) -> Numbered:
    try:
        plain = json.loads(body)
        return Numbered(plain["n"], plain[text])
    except (ValueError, KeyError, TypeError) as error:
        raise NotABody(f"{body[:80]!r}: {error!r}") from None


def following(digest: str, message: Numbered) -> str:
    """Return the digest after one more message."""
    return sha256(f"{digest}{message.n}:{message.text}".encode()).hexdigest()


def digest_of(messages: Iterable[Numbered]) -> str:
    """Return the digest after all these messages."""
    digest = ""
    for message in messages:
        digest = following(digest, message)
    return digest
