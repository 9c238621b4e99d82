"""Seals: what of an envelope is encrypted, what is authenticated, and with which key (docs/protocol.md).

This module has no cipher. ``conversations.sealing`` has it, because its library is an optional extra.

A seal is AES-256-GCM. The body is encrypted, and everything else of the envelope is authenticated with it, as is the record's key: it decides
the group in which a dialog begins. The key of the cipher belongs to one dialog and one direction. So an envelope opens only where it was sealed
for, and an exchange of dialogs or directions is noticed even if all other fields fit.
"""

from __future__ import annotations

import hmac
from dataclasses import replace
from typing import Any, Final

from conversations.protocol.envelope_avro import CURRENT, encode_avro
from conversations.protocol.envelope_records import Envelope, Extras, Prefix, Seal
from conversations.protocol.registry import Registry

LABEL: Final = b"kafka-dialogs seal 1"
"""First part of the ``info`` of HKDF. Another way to seal has another label, so that no key is used in two ways."""
NONCE: Final = 12
"""Bytes of a nonce."""
TAG: Final = 16
"""Bytes of a tag."""
_KEY_SIZE = 4


class NotAuthentic(Exception):
    """An envelope is not what a holder of the keys has sealed for this place."""

    def __init__(self, why: str, envelope: Envelope) -> None:
        super().__init__(why)
        self.envelope = envelope


def cipher_key(secret: bytes, prefix: Prefix) -> bytes:
    """Return the key of the cipher for the dialog and the direction of an envelope: HKDF-SHA256, 32 bytes."""
    extracted = hmac.digest(prefix.conversation_id, secret, "sha256")
    direction = b"\1" if prefix.from_initiator else b"\0"
    return hmac.digest(extracted, LABEL + direction + b"\1", "sha256")


def sealed(envelope: Envelope, body: bytes, seal: Seal) -> Envelope:
    """Return an envelope with the body and the seal, and with its other fields unchanged."""
    extras = envelope.extras
    return replace(
        envelope, body=body,
        extras=Extras(seal=seal) if extras is None else replace(extras, seal=seal),
    )  # fmt: skip


def opened(envelope: Envelope, body: bytes) -> Envelope:
    """Return an envelope without its seal."""
    extras = envelope.extras
    rest = None if extras is None or (extras.origin is None and extras.fence is None) else replace(extras, seal=None)
    return replace(envelope, body=body, extras=rest)


def associated(key: bytes, envelope: Envelope, key_id: str) -> bytes:
    """Return the data that is authenticated with the body of an envelope of the current schema. ``key`` is the record's key."""
    return framed(key, encode_avro(sealed(envelope, b"", Seal(key_id, b"", b""))))


def associated_in(key: bytes, value: bytes, registry: Registry) -> bytes:
    """Return the same data for a sealed envelope of any registered schema, in the schema in which its sender wrote it.

    Raises:
        UndecodableRecord: the bytes are not an envelope of a registered schema.
    """
    writer = registry.writer(value)
    fields: dict[str, Any] = registry.decode(value, writer)
    fields["body"] = b""
    fields["extras"]["seal"] |= {"nonce": b"", "tag": b""}
    return framed(key, writer.encode(fields))


def is_current(value: bytes) -> bool:
    """Return True if an envelope has the schema of this release."""
    return value.startswith(CURRENT.head)


def framed(key: bytes, encoded: bytes) -> bytes:
    """Return the associated data: the length of the record's key, the key, and the encoded envelope with an empty body, nonce and tag."""
    return len(key).to_bytes(_KEY_SIZE, "big") + key + encoded
