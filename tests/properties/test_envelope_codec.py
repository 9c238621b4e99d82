"""Laws of the envelope codec, over random records and random damage."""

import dataclasses
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conversations.protocol.envelope import (
    Envelope,
    Extras,
    FenceOutcome,
    Kind,
    Origin,
    Prefix,
    Seal,
    UndecodableRecord,
    decode,
    decode_next,
    decode_tail,
    encode,
    encode_ack,
    encode_end,
    encode_long,
    encode_message,
    encode_prefix,
    message_run,
    tail_start,
)
from conversations.protocol.envelope_avro import CURRENT, decode_avro
from conversations.protocol.varint import PAIR_SIZE, PAIRS, read_long, read_pair
from conversations.testing.said import said

settings.register_profile("codec", deadline=None, max_examples=200)
settings.load_profile("codec")

ids = st.binary(min_size=16, max_size=16)
longs = st.one_of(st.integers(-2, 300), st.integers(8100, 8300), st.integers(-(2**63), 2**63 - 1))
ints = st.one_of(st.integers(-2, 200), st.integers(-(2**31), 2**31 - 1))
texts = st.one_of(st.sampled_from(["", "//example.com/Order", "x" * 63, "x" * 64, "ü" * 128]), st.text(max_size=80))
bodies = st.one_of(st.binary(max_size=200), st.sampled_from([b"x" * size for size in (63, 64, 8191, 8192, 20_000)]))
times = st.one_of(st.integers(1_700_000_000_000_000, 2_000_000_000_000_000), longs)
prefixes = st.builds(Prefix, ids, st.booleans(), texts, texts, texts, texts, st.booleans(), times, longs)
origins = st.builds(Origin, ids, ints, longs)
seals = st.builds(Seal, texts, st.binary(max_size=12), st.binary(max_size=16))
outcomes = st.builds(FenceOutcome, longs, longs, texts, st.booleans())
some_extras = st.builds(Extras, st.none() | origins, st.none() | seals, st.none() | outcomes)
skips = st.lists(longs, max_size=4).map(tuple)
envelopes = st.builds(
    Envelope, prefixes, st.sampled_from(Kind), longs, longs, st.just(-1) | longs, st.just(()) | skips, times,
    texts, st.just(0) | ints, st.just("") | texts, st.just(0) | ints, st.just(1) | ints, texts, bodies,
    st.none() | some_extras,
)  # fmt: skip
plain = st.builds(
    Envelope, prefixes, st.just(Kind.MESSAGE), longs, longs, sent_at=times, message_type=texts, content_type=texts,
    body=bodies,
)  # fmt: skip
EXAMPLE = Envelope(
    Prefix(bytes(range(16)), True, "contract", "from", "to", "key", True, 1_763_000_000_000_000, -1),
    Kind.MESSAGE, 70, 9_000, sent_at=1_763_000_000_000_000, message_type="type", content_type="text", body=b"b" * 70,
)  # fmt: skip
SEALED = dataclasses.replace(EXAMPLE, skipped=(1, 2), extras=Extras(seal=Seal("key", b"nonce", b"tag")))


def verdict(value: bytes, prefix: Prefix | None = None, start: int = 0) -> Envelope | None:
    """What a decoder makes of ``value``; None is a refusal, and any other error fails the test."""
    try:
        return decode_tail(prefix, value, start) if prefix else decode_avro(value)
    except UndecodableRecord as refusal:
        assert str(refusal)  # noqa: PT017
        return None


def anything(value: bytes) -> Envelope | None:
    try:
        return decode(value)
    except UndecodableRecord as refusal:
        assert str(refusal)  # noqa: PT017
        return None


@given(envelopes)
def test_every_decoder_returns_what_was_encoded(envelope: Envelope) -> None:
    value, prefix = encode(envelope), encode_prefix(envelope.prefix)
    assert value.startswith(prefix)
    assert tail_start(value) == len(prefix)
    assert decode_avro(value) == decode(value) == decode_tail(envelope.prefix, value, len(prefix)) == envelope


@given(st.lists(envelopes, max_size=4), st.booleans())
def test_an_envelope_is_decoded_alike_whatever_came_before_it(found: list[Envelope], alike: bool) -> None:
    known = None
    for envelope in found:
        given_alike = dataclasses.replace(envelope, prefix=found[0].prefix) if alike else envelope
        decoded, known = decode_next(encode(given_alike), known)
        assert decoded == given_alike
        assert known == (given_alike.prefix, encode_prefix(given_alike.prefix))


@given(plain)
def test_messages_written_by_hand_are_those_of_fastavro(envelope: Envelope) -> None:
    run = message_run(envelope.message_type, envelope.content_type)
    sent_at = encode_long(envelope.sent_at)
    by_hand = encode_message(
        encode_prefix(envelope.prefix), envelope.seq, envelope.ack, sent_at, run, envelope.body
    )  # fmt: skip
    assert by_hand == encode(envelope)


@given(prefixes, longs, longs, times)
def test_acks_and_ends_written_by_hand_are_those_of_fastavro(prefix: Prefix, seq: int, ack: int, sent_at: int) -> None:
    start, when = encode_prefix(prefix), encode_long(sent_at)
    assert encode_ack(start, ack, when) == encode(Envelope(prefix, Kind.ACK, -1, ack, sent_at=sent_at))
    end = Envelope(prefix, Kind.END, seq, ack, transmitted=seq, sent_at=sent_at)
    assert encode_end(start, seq, ack, when) == encode(end)


@given(longs)
def test_longs(number: int) -> None:
    data = encode_long(number)
    assert read_long(b"?" + data + b"\x80", 1) == (number, 1 + len(data))


@pytest.mark.parametrize("envelope", [EXAMPLE, SEALED])
def test_a_record_cut_anywhere_is_refused_by_every_decoder(envelope: Envelope) -> None:
    value, start = encode(envelope), len(encode_prefix(envelope.prefix))
    for cut in range(len(value)):
        assert anything(value[:cut]) is None
        assert verdict(value[:cut]) is None
        assert cut < start or verdict(value[:cut], envelope.prefix, start) is None


@given(envelopes, st.binary(min_size=1, max_size=4))
def test_trailing_bytes_are_refused(envelope: Envelope, more: bytes) -> None:
    value, start = encode(envelope) + more, len(encode_prefix(envelope.prefix))
    assert verdict(value) is anything(value) is verdict(value, envelope.prefix, start) is None


@given(st.binary(max_size=120))
def test_garbage_is_only_ever_undecodable(garbage: bytes) -> None:
    anything(garbage)
    assert anything(CURRENT.head + garbage) == verdict(CURRENT.head + garbage)


@settings(max_examples=1000)
@given(st.data(), st.one_of(envelopes, plain))
def test_damaged_records_get_the_same_verdict_from_every_decoder(data: st.DataObject, envelope: Envelope) -> None:
    value, start = bytearray(encode(envelope)), len(encode_prefix(envelope.prefix))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(len(CURRENT.head), min(len(value) - 1, start + 200)))
        value[at : at + data.draw(st.integers(0, 2))] = data.draw(
            st.sampled_from([b"", b"\0", b"\1", b"\2", b"\x7f", b"\x80", b"\x80\0", b"\xff"]) | st.binary(max_size=3)
        )
    damaged = bytes(value)
    expected = verdict(damaged)
    assert anything(damaged) == expected
    if damaged.startswith(encode_prefix(envelope.prefix)):
        assert verdict(damaged, envelope.prefix, start) == expected


@pytest.mark.parametrize("size", [1 << 31, 1 << 40, (1 << 63) - 1, -1, -(1 << 63)])
def test_forged_lengths_are_refused_without_allocating(size: int) -> None:
    value, start = encode(EXAMPLE), len(encode_prefix(EXAMPLE.prefix))
    forged = encode_long(size)
    body = value.index(b"b" * 70) - 2
    skipped = start + 7  # after kind, number in two bytes, acknowledgement in three, transmitted
    lengths = [27, skipped, value.index(b"type", start) - 1, body]
    tracemalloc.start()
    for at in lengths:
        damaged = value[:at] + forged + value[at + (2 if at == body else 1) :]
        assert anything(damaged) is verdict(damaged) is None
        assert at < start or verdict(damaged, EXAMPLE.prefix, start) is None
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


def test_numbers_longer_than_64_bits_are_refused_and_padded_ones_read() -> None:
    value, start = encode(EXAMPLE), len(encode_prefix(EXAMPLE.prefix))
    padded = value[: start + 1] + b"\x8c\x81\x80\0" + value[start + 3 :]
    assert verdict(padded) == verdict(padded, EXAMPLE.prefix, start) == anything(padded) == EXAMPLE
    for number in (b"\xff" * 9 + b"\x02", b"\x80" * 10 + b"\0"):
        damaged = value[: start + 1] + number + value[start + 3 :]
        assert verdict(damaged) is verdict(damaged, EXAMPLE.prefix, start) is anything(damaged) is None


@given(envelopes)
def test_what_a_record_says_is_told_without_decoding_all_of_it(envelope: Envelope) -> None:
    prefix = envelope.prefix
    assert said(encode(envelope)) == (prefix.conversation_id, prefix.from_initiator, envelope.kind, envelope.seq)


@given(st.binary(max_size=200))
def test_bytes_that_are_no_envelope_say_nothing(value: bytes) -> None:
    for damaged in (value, encode(EXAMPLE)[: len(value)]):
        with pytest.raises(UndecodableRecord):
            said(damaged)


def test_caches_of_the_decoder_stay_bounded() -> None:
    start = len(encode_prefix(EXAMPLE.prefix))
    for number in range(5_000):
        envelope = dataclasses.replace(EXAMPLE, message_type=f"type {number}", sent_at=EXAMPLE.sent_at + number)
        assert decode_tail(EXAMPLE.prefix, encode(envelope), start) == envelope
    from conversations.protocol import envelope as hot
    from conversations.protocol.envelope_run import RUNS

    assert len(RUNS) <= 1024
    assert len(hot._SENT_AT) <= 4096


def test_two_of_todays_times_are_remembered_and_memory_of_them_stays_bounded() -> None:
    for number in range(10_000):
        pair = EXAMPLE.sent_at + number, EXAMPLE.sent_at - number
        value = encode_long(pair[0]) + encode_long(pair[1])
        assert read_pair(value, 0) == (pair, PAIR_SIZE)
        assert PAIRS[value] == pair
    assert len(PAIRS) <= 8192
