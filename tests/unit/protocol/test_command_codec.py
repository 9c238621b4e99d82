"""Commands to bytes and back."""

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conversations.protocol.command import (
    _OPERATIONS,
    CURRENT,
    Action,
    Begin,
    Cleanup,
    Command,
    End,
    EndWithError,
    Failed,
    Piece,
    Report,
    Resend,
    Resolve,
    Reuse,
    Send,
    SendFromPieces,
    SetTimer,
    Settle,
    Source,
    Switch,
    Tick,
    UndecodableRecord,
    _decode_current,
    _encode_plain,
    _operation,
    _operation_fields,
    decode_command,
    decode_parts,
    encode_command,
    head_of,
)
from conversations.protocol.command_parts import Parts
from conversations.protocol.limits import COMMAND_BYTES, OPERATIONS
from conversations.protocol.registry import DEFAULT

longs = st.integers(-(2**63), 2**63 - 1)
EXAMPLE = Command(b"c" * 16, b"d" * 16, True, "key", "", "me", 7, (Begin("to", "contract"), Send("type", "", b"body")))
ints = st.integers(-(2**31), 2**31 - 1)
sources = st.builds(Source, st.sampled_from(["QUEUE", "COMMANDS", "DECISIONS"]), longs)
operations = st.one_of(
    st.builds(Begin, st.text(), st.text(), longs, st.text()),
    st.builds(Send, st.text(), st.text(), st.binary()),
    st.builds(End),
    st.builds(EndWithError, ints, st.text()),
    st.builds(Cleanup),
    st.builds(SetTimer, longs),
    st.builds(Tick),
    st.builds(Resend),
    st.builds(
        Resolve, st.sampled_from([it.value for it in Failed]), longs, longs, st.sampled_from([it.value for it in Action]), st.binary(),
        ints, st.text(), st.text(), st.text(),
    ),
    st.builds(Switch, st.booleans(), st.text()),
    st.builds(Settle, st.lists(sources, max_size=3).map(tuple), st.text(), st.text()),
    st.builds(Report),
    st.builds(SetTimer, longs, st.text(min_size=1)),
    st.builds(Reuse, st.text(), st.text(), longs, longs, st.text()),
    st.builds(Piece, ints, ints, st.binary()),
)  # fmt: skip
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


@given(commands)
@settings(deadline=None)
def test_a_command_comes_back_as_it_was(command: Command) -> None:
    assert decode_command(encode_command(command)) == command


def test_the_operations_are_built_as_the_schema_has_them() -> None:
    """The hand-written reader gives the fields by their places. fastavro gives them by their names."""
    for name, kind in _OPERATIONS.items():
        fields = [it["name"] for it in CURRENT.names[name]["fields"]]
        assert fields == list(kind.__dataclass_fields__)[: len(fields)], name
    assert list(Command.__dataclass_fields__) == [it["name"] for it in CURRENT.parsed["fields"]]


@given(commands)
@settings(deadline=None)
def test_the_writer_writes_what_fastavro_writes(command: Command) -> None:
    written = _encode_plain(command)
    assert (written is None) == any(isinstance(it, Settle) for it in command.operations)
    if written is not None:
        fields = {name: getattr(command, name) for name in Command.__dataclass_fields__}
        assert written == CURRENT.encode(fields | {"operations": [_operation_fields(it) for it in command.operations]})


ODD: Any = 7
"""A value of a type that no field has."""


@pytest.mark.parametrize(
    "wrong",
    [
        {"key": 7}, {"key": "\ud800"}, {"issued_at": 1 << 63}, {"issued_at": True}, {"from_initiator": 1}, {"command_id": b"c" * 17},
        {"operations": (Piece(0, 1, ODD),)}, {"operations": (Piece(1 << 31, 0, b""),)}, {"operations": (EndWithError(ODD * "7", ""),)},
        {"operations": (Resolve("NOBODY", 0, 0, "RETRY"),)}, {"operations": ("End",)}, {"operations": (Switch(ODD),)},
        {"operations": (SetTimer(0.5 * ODD),)},
    ],
)  # fmt: skip
def test_the_writer_writes_nothing_of_a_wrong_type(wrong: dict[str, Any]) -> None:
    assert _encode_plain(replace(EXAMPLE, **wrong)) is None


def by_fastavro(value: bytes) -> Command:
    fields = DEFAULT.decode(value, CURRENT)
    return Command(**fields | {"operations": tuple(_operation(*it) for it in fields["operations"])})


DECISION = replace(
    EXAMPLE, operations=(Resolve("TIMER", -1, 7, "EDIT", b"body", -2, "no", "why", "timer"), Switch(True, "why"), SetTimer(9, "x"))
)  # fmt: skip


@pytest.mark.parametrize("command", [EXAMPLE, DECISION])
def test_the_reader_accepts_nothing_that_the_registry_refuses(command: Command) -> None:
    """Each byte is replaced by each other byte, and the end is cut off or has one byte too many."""
    whole = encode_command(command)
    changed = [whole[:at] + bytes([byte]) + whole[at + 1 :] for at in range(10, len(whole)) for byte in range(256)]
    accepted = 0
    for value in (*changed, *(whole[:end] for end in range(10, len(whole))), whole + b"\0", whole + b"\2"):
        if (read := _decode_current(value)) is not None:
            accepted += 1
            assert read == by_fastavro(value)
    assert accepted > len(whole)


@given(commands)
@settings(deadline=None)
def test_the_reader_reads_what_is_written_except_lists_in_operations(command: Command) -> None:
    read = _decode_current(encode_command(command))
    assert read == (None if any(isinstance(it, Settle) for it in command.operations) else command)


def in_parts(value: bytes, size: int) -> Parts:
    cut = [memoryview(value)[at : at + size] for at in range(0, len(value), size)]
    return Parts([len(it) for it in cut], cut.__getitem__, b"".join)


NONE_STAYS = 1 << 40


IDS_END = 42
"""Position behind the ids of a command. A part that ends inside them is not read on its own."""


@given(commands, st.integers(IDS_END, 300))
@settings(deadline=None)
def test_a_command_is_read_from_its_parts(command: Command, size: int) -> None:
    value = encode_command(command)
    found = decode_parts(in_parts(value, size), NONE_STAYS)
    if any(isinstance(it, Settle) for it in command.operations):
        assert found is None
        return
    assert found == command


def with_bodies(command: Command, value: bytes) -> Command:
    """Give the messages their bodies, which have stayed in the encoded command."""
    return replace(command, operations=tuple(
        Send(it.message_type, it.content_type, value[it.start : it.start + it.size]) if isinstance(it, SendFromPieces) else it
        for it in command.operations
    ))  # fmt: skip


@given(commands, st.integers(IDS_END, 300), st.integers(0, 40))
@settings(deadline=None)
def test_large_bodies_of_messages_stay_where_they_are(command: Command, size: int, largest: int) -> None:
    value = encode_command(command)
    found = decode_parts(in_parts(value, size), largest)
    if any(isinstance(it, Settle) for it in command.operations):
        assert found is None
        return
    assert found is not None
    assert with_bodies(found, value) == command
    for read, it in zip(found.operations, command.operations, strict=True):
        assert isinstance(read, SendFromPieces) == (isinstance(it, Send) and len(it.body) > largest)


def test_parts_that_have_nothing_but_a_body_that_stays_are_not_read() -> None:
    value = encode_command(replace(EXAMPLE, operations=(End(), Send("type", "", bytes(10_000)), End())))
    parts, read = in_parts(value, 1_000), []

    def reading(index: int) -> memoryview:
        read.append(index)
        return parts.read(index)

    found = decode_parts(parts._replace(read=reading), 9_000)
    assert found is not None
    assert with_bodies(found, value) == decode_command(value)
    assert read == [0, 10]


@pytest.mark.parametrize("size", [IDS_END, 47, 60])
@pytest.mark.parametrize("command", [EXAMPLE, DECISION])
def test_the_reader_of_parts_accepts_nothing_that_the_other_one_refuses(command: Command, size: int) -> None:
    """Each byte is replaced by each other byte, and the end is cut off or has one byte too many."""
    whole = encode_command(command)
    changed = [whole[:at] + bytes([byte]) + whole[at + 1 :] for at in range(len(whole)) for byte in range(256)]
    accepted, ends = 0, (whole + b"\0", whole + b"\2", whole[:-1] + b"\x80\0")
    for value in (*changed, *(whole[:end] for end in range(len(whole))), *ends):
        read, found = _decode_current(value), decode_parts(in_parts(value, size), NONE_STAYS)
        staying = decode_parts(in_parts(value, size), 3)
        accepted += found is not None
        assert found == read
        assert (None if staying is None else with_bodies(staying, value)) == read
    assert accepted > len(whole)


def test_a_field_without_an_end_is_not_looked_for_in_all_parts() -> None:
    value = encode_command(replace(EXAMPLE, operations=(Send("type", "", bytes(5 * COMMAND_BYTES)),)))
    at = value.index(b"type") - 1
    endless = value[:at] + b"\xfe\xff\xff\xff\x0f" + value[at + 1 :]
    parts, read = in_parts(endless, COMMAND_BYTES // 4), []

    def reading(index: int) -> memoryview:
        read.append(index)
        return parts.read(index)

    assert decode_parts(parts._replace(read=reading), NONE_STAYS) is None
    assert len(parts.sizes) - len(read) > 8


def test_a_list_in_two_blocks_is_read_too() -> None:
    value = encode_command(EXAMPLE)
    (first,) = re.finditer(b"\x04\x00\x04to", value)
    one, two = value[first.start() + 1 : -1].split(b"\x02\x08type")
    split = value[: first.start()] + b"\x02" + one + b"\x02\x02\x08type" + two + b"\x00"
    assert _decode_current(split) is None
    assert decode_command(split) == EXAMPLE


def test_too_many_operations_are_refused() -> None:
    many = replace(EXAMPLE, operations=(End(),) * (OPERATIONS + 1))
    with pytest.raises(UndecodableRecord, match="more than 10000 items"):
        decode_command(encode_command(many))
    assert (
        decode_command(encode_command(replace(many, operations=many.operations[1:]))).operations == many.operations[1:]
    )


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


@given(commands, st.integers(0, 300))
@settings(deadline=None)
def test_the_head_of_a_command_is_known_from_its_beginning(command: Command, size: int) -> None:
    value = encode_command(command)
    head = replace(command, operations=())
    begins = len(encode_command(head)) - 1
    expected = (head, begins) if size >= begins else None
    assert head_of(value[:size]) == expected


def test_a_head_that_this_version_would_write_in_another_way_is_not_known() -> None:
    value = encode_command(EXAMPLE)
    at = value.index(b"\x06key")
    longer = value[:at] + b"\x86\x00" + value[at + 1 :]
    assert decode_command(longer) == EXAMPLE
    assert head_of(longer) is None
