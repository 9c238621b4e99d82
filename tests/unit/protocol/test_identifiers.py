"""Laws of conversation ids and handles."""

from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversations.errors import LocalError
from conversations.protocol.identifiers import (
    RANDOM_BITS,
    Handle,
    drawn_at,
    read_handle,
    read_uuid_text,
    uuid7,
    uuid_text,
)

times = st.integers(0, (1 << 48) * 1_000 - 1)
bits = st.integers(0, (1 << RANDOM_BITS) - 1)


@given(times, bits)
def test_an_id_is_a_uuid_of_version_7_that_tells_its_age(now: int, random: int) -> None:
    """RFC 9562: version, variant, and the milliseconds in front."""
    drawn = uuid7(now, random)
    assert drawn.version == 7
    assert drawn.variant == "specified in RFC 4122"
    assert drawn_at(drawn.bytes) == now // 1_000 * 1_000


@given(times, bits, bits)
def test_different_bits_make_different_ids(now: int, first: int, second: int) -> None:
    """All 74 random bits are used."""
    assert (uuid7(now, first) == uuid7(now, second)) == (first == second)


@given(st.binary(min_size=16, max_size=16))
def test_the_text_of_an_id_is_that_of_any_uuid(conversation: bytes) -> None:
    assert uuid_text(conversation) == str(UUID(bytes=conversation))


@given(
    st.text(max_size=40)
    | st.uuids().map(str)
    | st.uuids().map(lambda it: str(it).upper())
    | st.uuids().map(lambda it: f"{it.hex}----")
)
def test_only_the_text_of_an_id_is_read_as_one(text: str) -> None:
    """Another spelling of the same id is another key."""
    found = read_uuid_text(text)
    assert found is None or uuid_text(found) == text
    try:
        assert (found is not None) is (str(UUID(text)) == text)
    except ValueError:
        assert found is None


def test_other_ids_have_no_age() -> None:
    """A UUIDv4 says nothing about time."""
    assert drawn_at(uuid4().bytes) is None


keys = st.text(min_size=1, max_size=20)


@given(times, bits, keys | st.none(), st.booleans())
def test_a_handle_says_how_to_address_a_dialog(now: int, random: int, key: str | None, initiator: bool) -> None:
    """Id, key and side come back; the key is only written down when it is another, the side only if it is the target's."""
    drawn = uuid7(now, random)
    name = Handle(drawn.bytes, key or str(drawn), initiator)
    assert read_handle(name.text) == name
    assert ("@" in name.text) == (key is not None)
    assert name.text.startswith(f"{drawn}:target") == (not initiator)


@pytest.mark.parametrize("text", ["", "x", "@key", "not-a-uuid@key", ":target", "x:target@key"])
def test_another_text_is_not_a_handle(text: str) -> None:
    """8426."""
    with pytest.raises(LocalError) as refused:
        read_handle(text)
    assert refused.value.code == 8426


def test_a_handle_is_as_short_as_it_can_be() -> None:
    """A dialog of its own group is named by its id alone."""
    assert Handle(UUID(int=7).bytes, str(UUID(int=7))).text == str(UUID(int=7))
