"""Sealing: the cipher for the envelopes to and from peers with keys. It needs the extra ``seal``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from conversations.errors import DeclarationError, InDoubt
from conversations.protocol.envelope import (
    Envelope,
    Extras,
    UndecodableRecord,
    decode,
    decode_tail,
    encode,
    encode_long,
)
from conversations.protocol.envelope_records import Prefix, Seal
from conversations.protocol.envelope_run import encode_text
from conversations.protocol.limits import NAME
from conversations.protocol.seals import NONCE, TAG, NotAuthentic, associated, cipher_key, framed, opened, sealed
from conversations.seal_keys import Key, KeyProvider, Keys, provider_at

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_EXTRAS, _NONCE_SIZE, _TAG_SIZE = b"\2\0\2", encode_long(NONCE), encode_long(TAG)
"""Avro: extras with no origin and a seal; the lengths of a nonce and of a tag."""
_EMPTY = b"\0\0\0"
"""Avro: an empty nonce, an empty tag, and no fence."""
_REST = len(_NONCE_SIZE) + NONCE + len(_TAG_SIZE) + TAG + 1
"""Bytes of an envelope behind the id of its key, if it has no other extras than its seal."""
CIPHERS: Final = 4_096
"""Number of ciphers that are kept for one peer: two for each dialog."""
PEERS: Final = 1_000
"""Number of peers whose keys are remembered, among them peers without keys."""


class SealedValue(bytes):
    """The bytes of a sealed envelope, with the bytes before they were sealed. If a topic refuses them, the plain ones are kept."""

    plain: bytes


def plain_value(value: bytes) -> bytes:
    """Return the bytes of an envelope of this side before they were sealed."""
    return value.plain if isinstance(value, SealedValue) else value


class Sealer:
    """Seals the envelopes to one peer, and opens the envelopes from it.

    Args:
        keys: the keys that are shared with the peer.
        cipher: makes a cipher of 32 bytes.
        invalid: the exception of a cipher for what was not sealed like this.
    """

    __slots__ = ("_cipher", "_ciphers", "_invalid", "_keys", "_marks")

    def __init__(self, keys: Keys, cipher: type[AESGCM], invalid: type[Exception]) -> None:
        self._keys = keys
        self._cipher, self._invalid = cipher, invalid
        self._ciphers: dict[tuple[str, bytes, bool], AESGCM] = {}
        self._marks = {key.id: _EXTRAS + encode_text(key.id) for key in keys.keys}
        """How the extras of an envelope begin that has nothing but a seal with this key."""

    def seal(self, key: bytes, value: bytes) -> SealedValue:
        """Return the sealed form of an encoded envelope. ``key`` is the record's key. Each call draws a new nonce."""
        envelope, first, nonce = decode(value), self._keys.first, os.urandom(NONCE)
        cipher, body = self._of(first, envelope.prefix), envelope.body
        if envelope.extras is None:  # nearly always: the bytes are put together, for speed
            size, mark = encode_long(len(body)), self._marks[first.id]
            start = value[: -1 - len(body) - len(size)]
            hidden = cipher.encrypt(nonce, body, framed(key, start + b"\0" + mark + _EMPTY))
            result = SealedValue(b"".join(
                (start, size, hidden[:-TAG], mark, _NONCE_SIZE, nonce, _TAG_SIZE, hidden[-TAG:], b"\0")
            ))  # fmt: skip
        else:
            hidden = cipher.encrypt(nonce, body, associated(key, envelope, first.id))
            result = SealedValue(encode(sealed(envelope, hidden[:-TAG], Seal(first.id, nonce, hidden[-TAG:]))))
        result.plain = value
        return result

    def open(self, key: bytes | None, envelope: Envelope, data: bytes | None = None) -> tuple[Envelope, bytes]:
        """Return an envelope without its seal, and its bytes. ``data`` is the associated data, if it is not that of the current schema.

        Raises:
            NotAuthentic: the envelope has no seal, its key is not known here, or it was not sealed like this.
        """
        seal = envelope.extras.seal if envelope.extras is not None else None
        if seal is None:
            raise NotAuthentic("it is not sealed, and there are keys for its sender", envelope)
        known = self._keys.find(seal.key_id)
        if known is None:
            raise NotAuthentic("the key of its seal is not known here", envelope)
        if len(seal.nonce) != NONCE or len(seal.tag) != TAG:
            raise NotAuthentic("its seal is not whole", envelope)
        if data is None:
            data = associated(key or b"", envelope, seal.key_id)
        plain = opened(envelope, self._body(known, envelope, seal, data))
        return plain, encode(plain)

    def open_usual(self, key: bytes | None, prefix: Prefix, value: bytes, start: int) -> tuple[Envelope, bytes] | None:
        """Do what ``open`` does with an envelope that has no other extras than its seal, in a fraction of the time; None if it has.

        ``value`` begins with the encoded ``prefix``, which has ``start`` bytes.

        Raises:
            NotAuthentic: the envelope was not sealed like this.
        """
        for known in self._keys.keys:
            mark = self._marks[known.id]
            at = len(value) - len(mark) - _REST
            if not value.startswith(mark, at) or value[at + len(mark)] != _NONCE_SIZE[0]:
                continue
            try:
                # Without the seal it is an envelope whose body is the encrypted one.
                envelope = decode_tail(prefix, value[:at] + b"\0", start)
            except UndecodableRecord:
                return None
            seal = Seal(known.id, value[-TAG - NONCE - 2 : -TAG - 2], value[-TAG - 1 : -1])
            size = encode_long(len(envelope.body))
            before = value[: at - len(envelope.body) - len(size)]
            envelope.extras = Extras(seal=seal)
            data = framed(key or b"", before + b"\0" + mark + _EMPTY)
            body = self._body(known, envelope, seal, data)
            envelope.body, envelope.extras = body, None
            return envelope, b"".join((before, size, body, b"\0"))
        return None

    def _body(self, key: Key, envelope: Envelope, seal: Seal, data: bytes) -> bytes:
        try:
            body: bytes = self._of(key, envelope.prefix).decrypt(seal.nonce, envelope.body + seal.tag, data)
        except self._invalid:
            raise NotAuthentic("it is not as it was sealed, or was sealed for another place", envelope) from None
        return body

    def _of(self, key: Key, prefix: Prefix) -> AESGCM:
        name = key.id, prefix.conversation_id, prefix.from_initiator
        found = self._ciphers.get(name)
        if found is None:
            if len(self._ciphers) >= CIPHERS:
                self._ciphers.clear()
            found = self._ciphers[name] = self._cipher(cipher_key(key.secret, prefix))
        return found


class Seals:
    """The sealers of all peers of a worker.

    Raises:
        DeclarationError: the extra ``seal`` is not installed, or there are no keys at the place.
    """

    def __init__(self, keys: KeyProvider | str) -> None:
        try:
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError:
            raise DeclarationError(
                "sealing needs the library cryptography: pip install 'kafka-dialogs[seal]', or give no keys (worker.keys)"
            ) from None
        self._provider = provider_at(keys) if isinstance(keys, str) else keys
        self._cipher, self._invalid = AESGCM, InvalidTag
        self._sealers: dict[str, Sealer | None] = {}

    def of(self, peer: str) -> Sealer | None:
        """Return the sealer for a peer; None if there are no keys for it.

        Raises:
            InDoubt: the provider of the keys failed.
        """
        if peer not in self._sealers:
            if len(self._sealers) >= PEERS:
                self._sealers = {name: sealer for name, sealer in self._sealers.items() if sealer is not None}
            self._sealers[peer] = self._look(peer)
        return self._sealers[peer]

    def _look(self, peer: str) -> Sealer | None:
        if not NAME.fullmatch(peer):
            return None
        try:
            keys = self._provider.keys_for(peer)
        except Exception as error:  # noqa: BLE001 - code of the application; its text may have a secret
            raise InDoubt(f"the keys for {peer} cannot be had: {type(error).__name__}") from None
        return None if keys is None else Sealer(keys, self._cipher, self._invalid)
