"""A poll takes what has arrived in slices, and few large records at once."""

from typing import Any, cast

from confluent_kafka import Consumer, Message

from conversations.kafka.consumer import LARGE_BYTES, LARGE_SLICE, SLICE, more

SMALL, LARGE = b"s" * 100, b"l" * 600_000


class Fetched:
    """Has records that have arrived, and gives as many as asked for."""

    def __init__(self, *records: bytes) -> None:
        self.records = list(records)
        self.asked: list[int] = []

    def consume(self, count: int, _timeout: float) -> list[bytes]:
        self.asked.append(count)
        given, self.records = self.records[:count], self.records[count:]
        return given


def polled(fetched: Fetched, limit: int = 5_000, size: int = 32_000_000) -> list[bytes]:
    first: Any = fetched.records.pop(0)
    return cast("list[bytes]", more(cast("Consumer", fetched), cast("Message", first), limit, size))


def test_small_records_are_taken_in_two_slices() -> None:
    fetched = Fetched(*[SMALL] * 4_000)
    assert len(polled(fetched)) == 4_000
    assert fetched.asked[0] == SLICE
    assert len(fetched.asked) == 3


def test_a_poll_ends_after_some_megabytes_of_large_records() -> None:
    fetched = Fetched(*[LARGE] * 100)
    taken = sum(map(len, polled(fetched)))
    assert LARGE_BYTES <= taken < LARGE_BYTES + LARGE_SLICE * len(LARGE)
    assert set(fetched.asked) == {LARGE_SLICE}


def test_records_that_are_not_large_are_limited_by_the_size_alone() -> None:
    fetched = Fetched(*[b"m" * 50_000] * 500)
    assert 10_000_000 <= sum(map(len, polled(fetched, size=10_000_000))) < 12_000_000
