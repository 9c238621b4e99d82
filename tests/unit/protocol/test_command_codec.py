"""Commands to bytes and back."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conversations.protocol.command import (
    Begin,
    Cleanup,
    Command,
    End,
    EndWithError,
    Resend,
    Send,
    SetTimer,
    Tick,
    UndecodableRecord,
    decode_command,
    encode_command,
)

longs = st.integers(-(2**63), 2**63 - 1)
operations = st.one_of(
    st.builds(Begin, st.text(), st.text(), longs, st.text()),
    st.builds(Send, st.text(), st.text(), st.binary()),
    st.builds(End),
    st.builds(EndWithError, st.integers(-(2**31), 2**31 - 1), st.text()),
    st.builds(Cleanup),
    st.builds(SetTimer, longs),
    st.builds(Tick),
    st.builds(Resend),
)
ids = st.binary(min_size=16, max_size=16)
commands = st.builds(
    Command,
    ids,
    ids,
    st.booleans(),
    st.text(),
    st.text(),
    st.text(),
    longs,
    st.lists(operations, max_size=5).map(tuple),
)
EXAMPLE = Command(b"c" * 16, b"d" * 16, True, "key", "", "me", 7, (Begin("to", "contract"), Send("type", "", b"body")))


@given(commands)
@settings(deadline=None)
def test_a_command_comes_back_as_it_was(command: Command) -> None:
    assert decode_command(encode_command(command)) == command


def test_a_command_cut_anywhere_is_undecodable() -> None:
    value = encode_command(EXAMPLE)
    for cut in range(len(value)):
        with pytest.raises(UndecodableRecord):
            decode_command(value[:cut])


@given(st.binary(max_size=80))
@settings(deadline=None)
def test_garbage_is_only_ever_undecodable(garbage: bytes) -> None:
    for value in (garbage, encode_command(EXAMPLE)[:10] + garbage):
        try:
            decode_command(value)
        except UndecodableRecord as refusal:
            assert str(refusal)  # noqa: PT017


def test_what_does_not_fit_is_refused_when_written() -> None:
    with pytest.raises(ValueError, match="does not match schema size"):
        encode_command(Command(b"short", b"d" * 16, True, "", "", "", 0, ()))
    with pytest.raises(OverflowError, match="32 bits"):
        encode_command(Command(b"c" * 16, b"d" * 16, True, "", "", "", 0, (EndWithError(2**31, ""),)))
