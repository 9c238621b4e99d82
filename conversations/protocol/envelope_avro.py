"""Encodes and decodes envelopes with fastavro: all kinds of records, and all schema versions.

``conversations.protocol.envelope`` is faster, but handles only frequent records of the current schema (design decision 0004).
"""

from __future__ import annotations

from typing import Any

from conversations import schemas
from conversations.errors import UndecodableRecord
from conversations.protocol.envelope_records import Envelope, Extras, FenceOutcome, Kind, Origin, Prefix, Seal
from conversations.protocol.limits import SKIPPED
from conversations.protocol.registry import DEFAULT, Registry, Schema

CURRENT = Schema(schemas.load("envelope", schemas.newest("envelope")), items=SKIPPED)
"""The newest schema. This version encodes with it, and decodes older and newer records into its fields."""

_INT = 1 << 31


def encode_avro(envelope: Envelope) -> bytes:
    """Encode an envelope with fastavro.

    Raises:
        ValueError, TypeError, OverflowError: a field does not fit the schema.
    """
    for number in (envelope.code, envelope.fragment, envelope.fragments):
        if not -_INT <= number < _INT:
            raise OverflowError(f"{number} does not fit in 32 bits")
    return CURRENT.encode(to_fields(envelope))


def decode_avro(value: bytes, registry: Registry = DEFAULT) -> Envelope:
    """Decode an envelope of any registered schema version with fastavro.

    Raises:
        UndecodableRecord: the bytes are not an envelope; the error text has the reason.
    """
    return from_fields(registry.decode(value, CURRENT))


def to_fields(envelope: Envelope) -> dict[str, Any]:
    """Return the fields of an envelope for fastavro, named as in the schema."""
    prefix = envelope.prefix
    return {
        "conversation_id": prefix.conversation_id, "from_initiator": prefix.from_initiator,
        "contract": prefix.contract, "from_service": prefix.from_service, "to_service": prefix.to_service,
        "reply_key": prefix.reply_key, "resends": prefix.resends,
        "accept_until": prefix.accept_until, "expires_at": prefix.expires_at,
        "kind": envelope.kind.name, "seq": envelope.seq, "ack": envelope.ack, "transmitted": envelope.transmitted,
        "skipped": envelope.skipped, "sent_at": envelope.sent_at, "message_type": envelope.message_type,
        "code": envelope.code, "description": envelope.description,
        "fragment": envelope.fragment, "fragments": envelope.fragments,
        "content_type": envelope.content_type, "body": envelope.body, "extras": _extras_fields(envelope.extras),
    }  # fmt: skip


def from_fields(fields: dict[str, Any]) -> Envelope:
    """Return the envelope with the fields that fastavro has read."""
    if len(fields["conversation_id"]) != 16:
        raise UndecodableRecord("a conversation id has 16 bytes")
    return Envelope(
        Prefix(
            fields["conversation_id"], fields["from_initiator"], fields["contract"], fields["from_service"],
            fields["to_service"], fields["reply_key"], fields["resends"], fields["accept_until"], fields["expires_at"],
        ),
        Kind[fields["kind"]], fields["seq"], fields["ack"], fields["transmitted"], tuple(fields["skipped"]),
        fields["sent_at"], fields["message_type"], fields["code"], fields["description"],
        fields["fragment"], fields["fragments"], fields["content_type"], fields["body"], _extras(fields["extras"]),
    )  # fmt: skip


def _extras_fields(extras: Extras | None) -> dict[str, Any] | None:
    if extras is None:
        return None
    origin, seal, fence = extras.origin, extras.seal, extras.fence
    return {
        "origin": origin and {
            "conversation_id": origin.conversation_id, "generation": origin.generation, "seq": origin.seq,
        },
        "seal": seal and {"key_id": seal.key_id, "nonce": seal.nonce, "tag": seal.tag},
        "fence": fence and {
            "accepted": fence.accepted, "transmitted": fence.transmitted,
            "outcome": fence.outcome, "dead_lettered": fence.dead_lettered,
        },
    }  # fmt: skip


def _extras(fields: dict[str, Any] | None) -> Extras | None:
    if fields is None:
        return None
    origin, seal, fence = fields["origin"], fields["seal"], fields["fence"]
    return Extras(
        origin and Origin(origin["conversation_id"], origin["generation"], origin["seq"]),
        seal and Seal(seal["key_id"], seal["nonce"], seal["tag"]),
        fence and FenceOutcome(fence["accepted"], fence["transmitted"], fence["outcome"], fence["dead_lettered"]),
    )
