"""The row of an ended dialog whose messages come back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversations.errors import UndecodableRecord
from conversations.protocol.returning import Returning, decode_returning, encode_returning

numbers = st.integers(-(2**62), 2**62)


@given(st.builds(Returning, numbers, numbers, numbers, st.booleans(), st.text(), st.binary(), st.binary()))
def test_a_row_is_read_as_it_was_written(row: Returning) -> None:
    assert decode_returning(encode_returning(row)) == row


ROW = Returning(4, 2, -8489, True, "shop.queue", b"key", b"")


@pytest.mark.parametrize("size", range(len(encode_returning(ROW))))
def test_a_row_that_is_cut_is_not_read(size: int) -> None:
    with pytest.raises(UndecodableRecord):
        decode_returning(encode_returning(ROW)[:size])


def test_a_row_of_a_later_version_is_not_read() -> None:
    with pytest.raises(UndecodableRecord, match="it begins with 02"):
        decode_returning(b"\2" + encode_returning(ROW)[1:])
