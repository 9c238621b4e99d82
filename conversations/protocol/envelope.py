"""The envelope of every record on a queue topic, and its codec.

The fields that are constant for a dialog and direction come first: the **prefix**. An owner keeps the encoded prefix, compares bytes with
it, and decodes only the rest. For speed, this module itself encodes and decodes the frequent kinds of envelopes. fastavro encodes and
decodes the other kinds. For the frequent kinds, fastavro would give the same bytes (design decision 0004). The module needs no librdkafka.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from conversations.errors import UndecodableRecord
from conversations.protocol.envelope_avro import CURRENT, decode_avro, encode_avro
from conversations.protocol.envelope_records import Envelope, Extras, FenceOutcome, Kind, Origin, Prefix, Seal
from conversations.protocol.envelope_run import RUNS, encode_text, message_run, read_run, read_text
from conversations.protocol.registry import DEFAULT, HEAD_SIZE, Registry
from conversations.protocol.varint import LONGS, PAIR_SIZE, PAIRS, TABLE_END, encode_long, read_long, read_pair

__all__ = [
    "IDENTITY_AT", "IDENTITY_END", "Envelope", "Extras", "FenceOutcome", "Kind", "KnownPrefix", "Origin", "Prefix", "Seal",
    "UndecodableRecord", "decode", "decode_current", "decode_next", "decode_tail", "encode", "encode_ack", "encode_end", "encode_long",
    "encode_message", "encode_prefix", "message_run", "tail_start",
]  # fmt: skip

IDENTITY_AT: Final = 10
"""Position of the conversation id and the side in a record of the current schema. By these bytes an owner finds the endpoint."""
IDENTITY_END: Final = 27
"""Position after them."""


KnownPrefix: TypeAlias = tuple[Prefix, bytes]
"""A prefix, decoded and encoded."""

_HEAD: Final = CURRENT.head
_KINDS: Final[tuple[Kind | None, ...]] = tuple(
    None if byte & 1 else Kind(byte >> 1) for byte in range(2 * len(Kind) - 1)
)
_SMALL: Final = tuple(byte >> 1 ^ -(byte & 1) for byte in range(128))
_ACK_START: Final = b"\6\1"
_BARE: Final = message_run("", "") + b"\0\0"  # the fields from message_type to extras, all empty
_SENT_AT: Final[dict[bytes, int]] = {}
_SENT_AT_LIMIT = 4096
_Names: TypeAlias = tuple[bytes, tuple[str, str, str]]
_NAMES: dict[bytes, _Names] = {}
"""Cache: the contract and the services of prefixes already read, by the encoded contract."""
_NAMES_LIMIT = 1024
_LONGEST_NAMES = 1_000
_LONGEST_HEADER = 28
"""Maximum bytes of a ``dialog`` header."""


def encode(envelope: Envelope) -> bytes:
    """Encode any envelope, with fastavro.

    Raises:
        ValueError, TypeError, OverflowError: a field does not fit the schema.
    """
    return encode_avro(envelope)


def decode(value: bytes, registry: Registry = DEFAULT) -> Envelope:
    """Decode an envelope of any schema version that ``registry`` knows.

    Raises:
        UndecodableRecord: the bytes are too short, have a wrong marker, an unknown fingerprint or trailing bytes, are truncated, or are not
            Avro.
    """
    if value.startswith(_HEAD):
        return decode_current(value)[0]
    return decode_avro(value, registry)


def decode_next(value: bytes, known: KnownPrefix | None) -> tuple[Envelope, KnownPrefix | None]:
    """Decode an envelope of any schema version, which probably has the same prefix as the envelope before.

    Return the envelope, and its prefix for the next call. The prefix is None if the envelope has an older schema.

    Raises:
        UndecodableRecord: as for ``decode``.
    """
    if known is not None and value.startswith(known[1]):
        return decode_tail(known[0], value, len(known[1])), known
    if not value.startswith(_HEAD):
        return decode(value), None
    envelope, start = decode_current(value)
    return envelope, (envelope.prefix, value[:start])


def decode_current(value: bytes) -> tuple[Envelope, int]:
    """Decode an envelope of the current schema. Return it with the length of its encoded prefix.

    Raises:
        UndecodableRecord: the bytes are not an envelope, or the record has another schema.
    """
    if not value.startswith(_HEAD):
        raise _foreign(value)
    try:
        prefix, start = _read_prefix(value)
    except (IndexError, ValueError) as error:
        decode_avro(value)  # raises a more exact error, if fastavro refuses the record, too
        raise UndecodableRecord(f"broken prefix: {error}") from error
    return decode_tail(prefix, value, start), start


def decode_tail(prefix: Prefix, value: bytes, start: int) -> Envelope:  # noqa: PLR0915 - one straight line, for speed
    """Decode a record that begins with the encoded ``prefix``, which has ``start`` bytes. The caller has compared these bytes.

    For speed, the code for frequent records is one straight line. fastavro decodes unusual and broken records. So this function accepts
    and refuses the same bytes as fastavro.

    Raises:
        UndecodableRecord: the bytes are not an envelope.
    """
    try:
        kind = _KINDS[value[start]]
        byte = value[start + 1]
        if byte < 128:
            seq = _SMALL[byte]
            at = start + 2
        elif (high := value[start + 2]) < 128:
            seq = (byte & 127 | high << 7) >> 1 ^ -(byte & 1)
            at = start + 3
        else:
            seq, at = read_long(value, start + 1)
        byte = value[at]
        if byte < 128:
            ack = _SMALL[byte]
            at += 1
        elif (high := value[at + 1]) < 128:
            ack = (byte & 127 | high << 7) >> 1 ^ -(byte & 1)
            at += 2
        else:
            ack, at = read_long(value, at)
        byte = value[at]
        if byte < 128:
            transmitted = _SMALL[byte]
            at += 1
        elif (high := value[at + 1]) < 128:
            transmitted = (byte & 127 | high << 7) >> 1 ^ -(byte & 1)
            at += 2
        else:
            transmitted, at = read_long(value, at)
        sent_at = _SENT_AT.get(value[at : at + 9])  # one byte for no skipped numbers, eight bytes for a time of today
        if sent_at is None:
            sent_at, at = _read_sent_at(value, at)
        else:
            at += 9
        run = RUNS.get(value[at : at + 1 + (value[at] >> 1)])
        if run is None or value[at : at + run[1]] != run[0]:
            run = read_run(value, at)
        _, size, message_type, code, description, fragment, fragments, content_type = run
        at += size
        byte = value[at]
        if byte < 128:
            end = at + 1 + (byte >> 1)
            at += 1
        elif (high := value[at + 1]) < 128:
            end = at + 2 + ((byte & 127 | high << 7) >> 1)
            at += 2
        else:
            size, at = read_long(value, at)
            end = at + size
            byte = size < 0
        if kind is not None and not byte & 1 and value[end] == 0 and len(value) == end + 1:
            return Envelope(
                prefix, kind, seq, ack, transmitted, (), sent_at, message_type, code, description,
                fragment, fragments, content_type, value[at:end], None,
            )  # fmt: skip
    except (IndexError, ValueError):
        pass
    envelope = decode_avro(value)
    envelope.prefix = prefix
    return envelope


def encode_prefix(prefix: Prefix) -> bytes:
    """Encode the beginning that all records of a dialog and direction have in common: marker, fingerprint, constant fields.

    Raises:
        ValueError: the conversation id does not have 16 bytes.
    """
    if len(prefix.conversation_id) != 16:
        raise ValueError(f"a conversation id has 16 bytes, not {len(prefix.conversation_id)}")
    return b"".join((
        _HEAD, prefix.conversation_id, b"\1" if prefix.from_initiator else b"\0", encode_text(prefix.contract),
        encode_text(prefix.from_service), encode_text(prefix.to_service), encode_text(prefix.reply_key),
        b"\1" if prefix.resends else b"\0", encode_long(prefix.accept_until), encode_long(prefix.expires_at),
    ))  # fmt: skip


def encode_message(prefix: bytes, seq: int, ack: int, sent_at: bytes, run: bytes, body: bytes) -> bytes:
    """Encode a whole MESSAGE; ``prefix``, ``sent_at`` and ``run`` are results of ``encode_prefix``, ``encode_long`` and ``message_run``."""
    size = len(body)
    return b"".join((
        prefix, b"\0",
        LONGS[seq] if -1 <= seq < TABLE_END else encode_long(seq),
        LONGS[ack] if -1 <= ack < TABLE_END else encode_long(ack),
        b"\1\0", sent_at, run,
        LONGS[size] if size < TABLE_END else encode_long(size),
        body, b"\0",
    ))  # fmt: skip


def encode_ack(prefix: bytes, ack: int, sent_at: bytes) -> bytes:
    """Encode an ACK. It acknowledges every number of the other direction up to ``ack``."""
    return b"".join((prefix, _ACK_START, encode_long(ack), b"\1\0", sent_at, _BARE))


def encode_end(prefix: bytes, seq: int, ack: int, sent_at: bytes) -> bytes:
    """Encode an END. Its number ``seq`` is the last number of this direction."""
    number = encode_long(seq)
    return b"".join((prefix, b"\2", number, encode_long(ack), number, b"\0", sent_at, _BARE))


def tail_start(value: bytes) -> int:
    """Return the length of the encoded prefix of ``value``, a record of the current schema.

    Raises:
        UndecodableRecord: the record has another schema, or the prefix is broken.
    """
    return _checked_prefix(value)[1]


def prefix_in(value: bytes) -> Prefix:
    """Return the prefix of ``value``, a record of the current schema.

    Raises:
        UndecodableRecord: the record has another schema, or the prefix is broken.
    """
    return _checked_prefix(value)[0]


def _foreign(value: bytes) -> UndecodableRecord:
    return UndecodableRecord(f"not a record of the current envelope schema: it begins with {value[:HEAD_SIZE].hex()}")


def _checked_prefix(value: bytes) -> tuple[Prefix, int]:
    """Return the prefix of a record of the current schema, and its length."""
    if not value.startswith(_HEAD):
        raise _foreign(value)
    try:
        return _read_prefix(value)
    except (IndexError, UnicodeDecodeError) as error:
        raise UndecodableRecord(f"broken prefix: {error}") from error


def _read_prefix(value: bytes) -> tuple[Prefix, int]:
    names = _NAMES.get(value[27 : 28 + (value[27] >> 1)])
    if names is None or not value.startswith(names[0], 27):
        names = _read_names(value)
    reply_key, at = read_text(value, 27 + len(names[0]))
    if value[26] > 1 or value[at] > 1:
        raise UndecodableRecord("broken prefix: a boolean is neither 0 nor 1")
    resends = value[at] == 1
    at += 1
    times = PAIRS.get(value[at : at + PAIR_SIZE])
    if times is None:
        times, at = read_pair(value, at)
    else:
        at += PAIR_SIZE
    contract, from_service, to_service = names[1]
    return Prefix(
        value[10:26], value[26] == 1, contract, from_service, to_service, reply_key, resends, times[0], times[1]
    ), at


def _read_names(value: bytes) -> _Names:
    contract, end = read_text(value, 27)
    from_service, end = read_text(value, end)
    to_service, end = read_text(value, end)
    names = value[27:end], (contract, from_service, to_service)
    if len(names[0]) <= _LONGEST_NAMES:
        if len(_NAMES) >= _NAMES_LIMIT:
            _NAMES.clear()
        _NAMES[value[27 : 28 + (value[27] >> 1)]] = names
    return names


def _read_sent_at(value: bytes, at: int) -> tuple[int, int]:
    if value[at]:
        raise UndecodableRecord("the fast decoder does not read skipped numbers: decode this record with fastavro")
    sent_at, end = read_long(value, at + 1)
    if end == at + 9:
        if len(_SENT_AT) >= _SENT_AT_LIMIT:
            _SENT_AT.clear()
        _SENT_AT[value[at:end]] = sent_at
    return sent_at, end
