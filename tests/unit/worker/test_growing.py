"""The body of one message is joined while its fragments come."""

from dataclasses import replace

import pytest

from conversations.protocol.envelope import Envelope, Kind, Prefix
from conversations.worker.growing import Growing

PREFIX = Prefix(bytes(16), True, "c", "a", "b", "k", False, 0, -1)
OWN, OTHER = b"own", b"other"


def fragments(count: int, first: int = 0, size: int = 10) -> list[Envelope]:
    """Return the fragments of a message. The last one is smaller than the others."""
    return [
        Envelope(
            PREFIX, Kind.MESSAGE, first + at, -1, message_type="t", content_type="text/plain",
            body=bytes([first + at]) * (size if at < count - 1 else 3), fragment=at, fragments=count,
        )
        for at in range(count)
    ]  # fmt: skip


def whole(of: list[Envelope]) -> bytes:
    return b"".join(it.body for it in of)


@pytest.fixture
def growing() -> Growing:
    return Growing(1_000)


def grow(growing: Growing, own: bytes, of: list[Envelope]) -> bytes | None:
    *kept, last = of
    for it in kept:
        growing.add(own, it)
    return growing.finish(own, last)


def test_a_body_grows_to_the_whole_body(growing: Growing) -> None:
    for first in (0, 7):
        of = fragments(5, first)
        assert grow(growing, OWN, of) == whole(of)
        assert growing.finish(OWN, of[-1]) is None, "it is joined from its rows if it is handled again"


def test_a_body_that_says_less_than_it_has_grows_too(growing: Growing) -> None:
    of = fragments(5)
    of[2] = replace(of[2], body=bytes(700))
    assert grow(growing, OWN, of) == whole(of)


def test_no_more_memory_is_asked_for_than_a_body_may_have() -> None:
    of = fragments(3)
    first = replace(of[0], fragments=1 << 60)
    growing = Growing(1_000)
    growing.add(OWN, first)
    assert growing.finish(OWN, of[-1]) is None


def test_the_larger_of_two_messages_grows(growing: Growing) -> None:
    large, small = fragments(5), fragments(3, 20)
    for it in large[:-1]:
        growing.add(OWN, it)
    assert grow(growing, OTHER, small) is None
    assert growing.finish(OWN, large[-1]) == whole(large)
    for it in small[:-1]:
        growing.add(OTHER, it)
    assert grow(growing, OWN, large) == whole(large)
    assert growing.finish(OTHER, small[-1]) is None


def test_a_fragment_that_was_kept_elsewhere_is_missed(growing: Growing) -> None:
    of = fragments(5)
    for missing in range(4):
        assert grow(growing, OWN, [it for it in of if it.fragment != missing]) is None
        for it in of[:2]:
            growing.add(OWN, it)
        assert grow(growing, OWN, fragments(5, 10)[2:]) is None, "that is a later message of the dialog"


def test_a_fragment_that_comes_again_after_an_undone_step_is_not_added_twice(growing: Growing) -> None:
    of = fragments(5)
    assert grow(growing, OWN, [*of[:3], *of[2:]]) is None
    assert grow(growing, OWN, [*of[:3], *of]) == whole(of)
    assert grow(growing, OWN, [*of[:2], of[1], *of[3:]]) is None, "one came again, and the next one is missing"


def test_a_body_is_forgotten(growing: Growing) -> None:
    of = fragments(5)
    for it in of[:-1]:
        growing.add(OWN, it)
    growing.forget(OTHER)
    growing.forget(OWN)
    assert growing.finish(OWN, of[-1]) is None
    small = fragments(2)
    assert grow(growing, OTHER, small) == whole(small)
