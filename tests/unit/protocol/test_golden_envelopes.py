"""The wire format of envelopes, fixed byte for byte by files."""

from pathlib import Path

import pytest

from conversations.protocol.envelope import (
    Envelope,
    Kind,
    decode,
    decode_tail,
    encode,
    encode_ack,
    encode_end,
    encode_long,
    encode_message,
    encode_prefix,
    message_run,
)
from conversations.protocol.envelope_avro import CURRENT, decode_avro
from tests.golden.records import golden

CASES = golden()
BY_HAND = {
    "message", "message_long_dialog", "message_empty_texts", "message_unicode", "message_large_body",
    "message_long_type", "end", "end_long_dialog", "ack",
}  # fmt: skip


def by_hand(envelope: Envelope) -> bytes:
    prefix, sent_at = encode_prefix(envelope.prefix), encode_long(envelope.sent_at)
    if envelope.kind is Kind.ACK:
        return encode_ack(prefix, envelope.ack, sent_at)
    if envelope.kind is Kind.END:
        return encode_end(prefix, envelope.seq, envelope.ack, sent_at)
    run = message_run(envelope.message_type, envelope.content_type)
    return encode_message(prefix, envelope.seq, envelope.ack, sent_at, run, envelope.body)


def committed(path: Path) -> bytes:
    return bytes.fromhex(path.read_text(encoding="ascii"))


@pytest.mark.parametrize("name", CASES)
def test_fastavro_writes_the_committed_bytes(name: str) -> None:
    envelope, path = CASES[name]
    assert encode(envelope) == committed(path)


@pytest.mark.parametrize("name", sorted(BY_HAND))
def test_the_hand_written_encoders_write_the_committed_bytes(name: str) -> None:
    envelope, path = CASES[name]
    assert by_hand(envelope) == committed(path)


@pytest.mark.parametrize("name", CASES)
def test_every_decoder_reads_the_committed_bytes(name: str) -> None:
    envelope, path = CASES[name]
    value, prefix = committed(path), encode_prefix(envelope.prefix)
    assert value.startswith(prefix)
    assert decode_avro(value) == envelope
    assert decode(value) == envelope
    assert decode_tail(envelope.prefix, value, len(prefix)) == envelope


def test_every_committed_file_is_compared() -> None:
    folder = next(iter(CASES.values()))[1].parent
    assert {path.stem for path in folder.glob("*.hex")} == set(CASES)
    assert set(CASES) >= BY_HAND


def test_the_fingerprint_of_version_1_never_changes() -> None:
    assert CURRENT.fingerprint.hex() == "f9c14e18d3f5b568"
