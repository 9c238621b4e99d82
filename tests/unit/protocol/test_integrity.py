"""The checksum of a record between two clusters."""

import zlib

import pytest

from conversations.protocol.integrity import CRC, EARLIER, Damaged, checksum, has_checksum

DIALOG, KEY, VALUE = b"a dialog header", b"key", b"value"
GENUINE = [(CRC, checksum(KEY, VALUE))]
OF_EARLIER_RELEASES = [(EARLIER, DIALOG), (CRC, checksum(KEY, VALUE, DIALOG))]


def test_it_is_the_crc_32_of_the_key_and_the_value() -> None:
    assert checksum(KEY, VALUE) == zlib.crc32(KEY + VALUE).to_bytes(4, "big")
    assert checksum(b"123", b"456789") == bytes.fromhex("cbf43926"), "the check value of CRC-32"


def test_a_record_of_an_earlier_release_has_it_over_a_header_too() -> None:
    assert checksum(KEY, VALUE, DIALOG) == zlib.crc32(DIALOG + KEY + VALUE).to_bytes(4, "big")


@pytest.mark.parametrize("headers", [GENUINE, OF_EARLIER_RELEASES])
def test_a_record_with_the_right_one_is_whole_and_one_without_has_none(headers: list[tuple[str, bytes]]) -> None:
    assert has_checksum(headers, KEY, VALUE)
    assert has_checksum([("traceparent", b"00"), *reversed(headers)], KEY, VALUE)
    assert not has_checksum(headers[:-1], KEY, VALUE)
    assert not has_checksum([], None, None)


@pytest.mark.parametrize(
    ("headers", "key", "value"),
    [
        (GENUINE, b"kez", VALUE),
        (GENUINE, None, VALUE),
        (GENUINE, KEY, b"valuf"),
        (GENUINE, KEY, VALUE[:-1]),
        (GENUINE, KEY, None),
        ([(EARLIER, b"another header"), GENUINE[0]], KEY, VALUE),
        ([(EARLIER, b"another header"), OF_EARLIER_RELEASES[1]], KEY, VALUE),
        ([("dialof", DIALOG), OF_EARLIER_RELEASES[1]], KEY, VALUE),
        ([(EARLIER, None), OF_EARLIER_RELEASES[1]], KEY, VALUE),
        ([OF_EARLIER_RELEASES[1]], KEY, VALUE),
        ([(CRC, b"\0\0\0\0")], KEY, VALUE),
    ],
)
def test_whatever_is_not_as_it_was_written_is_damaged(
    headers: list[tuple[str, bytes | None]], key: bytes | None, value: bytes | None
) -> None:
    with pytest.raises(Damaged, match="wrong"):
        has_checksum(headers, key, value)


@pytest.mark.parametrize("cut", [None, b"", GENUINE[0][1][:3], GENUINE[0][1] + b"\0"])
def test_a_checksum_that_is_not_whole_is_damaged(cut: bytes | None) -> None:
    with pytest.raises(Damaged, match="not 4"):
        has_checksum([(CRC, cut)], KEY, VALUE)
