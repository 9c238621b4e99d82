"""The checksum of a record between two clusters."""

import zlib

import pytest

from conversations.protocol.envelope import HEADER_NAME
from conversations.protocol.integrity import CRC, Damaged, checksum, has_checksum

DIALOG, KEY, VALUE = b"a dialog header", b"key", b"value"
GENUINE = [(HEADER_NAME, DIALOG), (CRC, checksum(DIALOG, KEY, VALUE))]


def test_it_is_the_crc_32_of_the_header_the_key_and_the_value() -> None:
    assert checksum(DIALOG, KEY, VALUE) == zlib.crc32(DIALOG + KEY + VALUE).to_bytes(4, "big")
    assert checksum(b"123", b"456", b"789") == bytes.fromhex("cbf43926"), "the check value of CRC-32"


def test_a_record_with_the_right_one_is_whole_and_one_without_has_none() -> None:
    assert has_checksum(GENUINE, KEY, VALUE)
    assert has_checksum([("traceparent", b"00"), *reversed(GENUINE)], KEY, VALUE)
    assert not has_checksum(GENUINE[:1], KEY, VALUE)
    assert not has_checksum([], None, None)


@pytest.mark.parametrize(
    ("headers", "key", "value"),
    [
        (GENUINE, b"kez", VALUE),
        (GENUINE, None, VALUE),
        (GENUINE, KEY, b"valuf"),
        (GENUINE, KEY, VALUE[:-1]),
        (GENUINE, KEY, None),
        ([(HEADER_NAME, b"another header"), GENUINE[1]], KEY, VALUE),
        ([("dialof", DIALOG), GENUINE[1]], KEY, VALUE),
        ([(HEADER_NAME, None), GENUINE[1]], KEY, VALUE),
        ([GENUINE[1]], KEY, VALUE),
        ([GENUINE[0], (CRC, b"\0\0\0\0")], KEY, VALUE),
    ],
)
def test_whatever_is_not_as_it_was_written_is_damaged(
    headers: list[tuple[str, bytes | None]], key: bytes | None, value: bytes | None
) -> None:
    with pytest.raises(Damaged, match="wrong"):
        has_checksum(headers, key, value)


@pytest.mark.parametrize("cut", [None, b"", GENUINE[1][1][:3], GENUINE[1][1] + b"\0"])
def test_a_checksum_that_is_not_whole_is_damaged(cut: bytes | None) -> None:
    with pytest.raises(Damaged, match="not 4"):
        has_checksum([GENUINE[0], (CRC, cut)], KEY, VALUE)
