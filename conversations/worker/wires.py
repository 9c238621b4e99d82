"""Wires: how the envelopes of this service and of one peer look on the way, if they do not stay on one cluster."""

from __future__ import annotations

from typing import NamedTuple

from conversations.ports import Headers, Record
from conversations.protocol.envelope import Envelope, Prefix, decode_tail
from conversations.protocol.integrity import CRC, Damaged, checksum
from conversations.protocol.seals import is_current
from conversations.protocol.sequencing import NONE
from conversations.sealing import Sealer
from conversations.writer_schemas import WriterSchemas


class Come(NamedTuple):
    """A record that has come."""

    record: Record
    value: bytes
    """Its envelope in the schema of this release."""
    start: int
    """Length of the encoded prefix."""
    has_checksum: bool
    """True if it has a checksum, which is right."""


class Wire:
    """The way to and from a peer. There is none for a peer on this cluster, whose envelopes go as they are."""

    __slots__ = ("is_far", "sealer")

    def __init__(self, *, is_far: bool, sealer: Sealer | None = None) -> None:
        self.is_far = is_far
        """True if the peer lives on another cluster."""
        self.sealer = sealer
        """Seals and opens the envelopes; None if there are no keys for the peer."""

    def dress(self, key: bytes, value: bytes) -> tuple[bytes, Headers]:
        """Return the value and the headers of a record that goes this way."""
        if self.sealer is not None:
            value = self.sealer.seal(key, value)  # the prefix, the kind and the number stay as they are
        return value, [(CRC, checksum(key, value))] if self.is_far else []

    def undress_usual(self, come: Come, prefix: Prefix) -> tuple[Envelope, bytes]:
        """Do what ``undress`` does with a record of the current schema whose prefix is known.

        Raises:
            UndecodableRecord: the bytes are no envelope.
            Damaged, NotAuthentic: see ``undress``.
        """
        if self.sealer is None or (self.is_far and not come.has_checksum):
            return self.undress(come, decode_tail(prefix, come.value, come.start))
        found = self.sealer.open_usual(come.record.key(), prefix, come.value, come.start)
        return found or self.undress(come, decode_tail(prefix, come.value, come.start))

    def undress(self, come: Come, envelope: Envelope, schemas: WriterSchemas | None = None) -> tuple[Envelope, bytes]:
        """Return the envelope of a record that has come this way, and its bytes, without a seal.

        ``schemas`` are needed if the record may be of another release.

        Raises:
            Damaged: the record has no checksum.
            NotAuthentic: the envelope is not what the peer has sealed.
        """
        if self.is_far and not come.has_checksum:
            raise Damaged("it is from another cluster, and has no checksum")
        if self.sealer is None:
            return envelope, come.value
        key, written = come.record.key(), come.record.value() or b""
        is_sealed = envelope.extras is not None and envelope.extras.seal is not None
        data = (
            schemas.associated(key or b"", written)
            if schemas is not None and is_sealed and not is_current(written)
            else None
        )
        return self.sealer.open(key, envelope, data)


FAR = Wire(is_far=True)
"""The way to a peer on another cluster."""


class Way(NamedTuple):
    """Where the envelopes of one endpoint go."""

    topic: str
    partition: int = NONE
    """``NONE`` until the partition is known. Then envelopes are delayed."""
    wire: Wire | None = None
    """How they look on the way; None if the peer is on this cluster."""


NOWHERE = Way("")
"""Stands for a way that was not looked for yet."""
