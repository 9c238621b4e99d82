"""Which service an envelope of a transmission topic is for, and what a forwarder does with a record that it cannot read."""

import pytest

from conversations import LogError
from conversations.kafka.forwarder import _service_in
from conversations.memory.record import MemoryRecord
from conversations.ports import Headers, Out
from conversations.protocol.envelope import Envelope, Kind, Prefix, encode
from conversations.protocol.integrity import CRC, checksum

VALUE = encode(Envelope(Prefix(bytes(16), True, "Talk", "here", "there", "key", True, 1, 2), Kind.MESSAGE, 0, -1))


def service_in(value: bytes, crc: bytes) -> str:
    headers: Headers = [(CRC, crc)]
    return _service_in(MemoryRecord("conv.emea.transmission", 1, 5, 0, Out("", 1, b"key", value, headers)), headers)


def test_the_prefix_names_it() -> None:
    assert service_in(VALUE, checksum(b"key", VALUE)) == "there"


def test_a_damaged_record_is_left_to_its_sender() -> None:
    assert not service_in(b"\0" + VALUE[1:], checksum(b"key", VALUE))


def test_a_whole_record_that_cannot_be_read_stops_the_forwarder() -> None:
    """A forwarder of an old release must not drop what a later release has written."""
    with pytest.raises(LogError, match=r"record 5 of partition 1 of conv\.emea\.transmission"):
        service_in(b"\0" + VALUE[1:], checksum(b"key", b"\0" + VALUE[1:]))
