"""The trace context of a record: its form, and nothing else, is believed."""

import pytest

from conversations.protocol.waiting_row import WaitingRow, trace_in
from conversations.tracing import STATE_BYTES, headers_of, trace_of

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01".encode()


def test_a_context_goes_through_headers_unchanged() -> None:
    headers = [("x", b"1"), ("traceparent", PARENT), ("tracestate", b"vendor=opaque")]
    assert trace_of(headers) == PARENT + b"vendor=opaque"
    assert headers_of(trace_of(headers)) == headers[1:]
    assert headers_of(trace_of(headers[:2])) == [headers[1]]
    assert headers_of(b"") == []


@pytest.mark.parametrize(
    "parent",
    [
        None,
        b"",
        PARENT[:-1],
        PARENT + b"0",
        PARENT + b"-later",
        PARENT.upper(),
        PARENT.replace(b"-", b"_"),
        f"ff-{TRACE}-{SPAN}-01".encode(),
        f"00-{'0' * 32}-{SPAN}-01".encode(),
        f"00-{TRACE}-{'0' * 16}-01".encode(),
        PARENT[:-1] + b"\n",
        PARENT[:-2] + "é".encode(),
        b"00-" + b"4" * 1_000_000,
        f"01-{TRACE}-{SPAN}-01-".encode() + b"x" * 1_000_000,
    ],
)
def test_a_malformed_or_huge_parent_is_none(parent: bytes | None) -> None:
    assert trace_of([("traceparent", parent), ("tracestate", b"vendor=1")]) == b""


def test_two_parents_are_none() -> None:
    assert trace_of([("traceparent", PARENT), ("traceparent", PARENT)]) == b""


def test_a_later_version_is_understood_as_far_as_this_one_goes() -> None:
    assert trace_of([("traceparent", f"01-{TRACE}-{SPAN}-01-what comes later".encode())]) == PARENT


@pytest.mark.parametrize("state", [b"v=\x1b[31m", b"v=1\r\n", b"\xff", b"x" * (STATE_BYTES + 1), b""])
def test_a_malformed_or_long_state_is_left_out(state: bytes) -> None:
    assert trace_of([("traceparent", PARENT), ("tracestate", state)]) == PARENT


def kept(header: bytes) -> bytes:
    return trace_in(WaitingRow("q", 0, 0, accepted=False, attempts=0, key=b"", header=header, value=b""))


def test_a_row_has_the_context_of_its_record_or_nothing() -> None:
    assert kept(b"") == b""
    assert kept(PARENT + b"v=1") == PARENT + b"v=1"


@pytest.mark.parametrize("side", [b"\0", b"\1"])
@pytest.mark.parametrize("number", [b"\0", b"\x30", b"\x7e", b"\x80\x01", b"\xb0\x30", b"\xff" * 9 + b"\1"])
def test_in_rows_of_earlier_releases_the_context_is_behind_a_header(side: bytes, number: bytes) -> None:
    header = b"c" * 16 + side + b"\0" + number
    assert kept(header) == b""
    assert kept(header + PARENT + b"v=1") == PARENT + b"v=1"
