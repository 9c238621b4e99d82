"""Laws of the buckets in which keys wait to be forgotten."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversations.durations import MINUTE
from conversations.worker.buckets import KEY_SIZE, Buckets


def key(number: int) -> bytes:
    return number.to_bytes(KEY_SIZE, "big")


@given(st.lists(st.integers(0, 20 * MINUTE), max_size=30), st.integers(0, 25 * MINUTE))
def test_a_key_is_forgotten_within_a_minute_after_its_time_and_never_before(times: list[int], log_time: int) -> None:
    """Minutes are rounded up: too late by less than one, too early never."""
    buckets = Buckets(MINUTE)
    for number, at in enumerate(times):
        buckets.add(at, key(number))
    taken = set(buckets.take(log_time, 1000))
    assert {key(number) for number, at in enumerate(times) if at + MINUTE <= log_time} <= taken
    assert taken <= {key(number) for number, at in enumerate(times) if at < log_time}
    assert len(buckets) == len(times) - len(taken)


@given(st.integers(1, 30), st.integers(0, 10))
def test_no_more_than_asked_for_are_taken_and_the_rest_stays(count: int, limit: int) -> None:
    """Sweeping is done in slices; every key is taken once."""
    buckets = Buckets(MINUTE)
    for number in range(count):
        buckets.add(number * MINUTE // 3, key(number))
    taken = list(buckets.take(1000 * MINUTE, limit))
    assert len(taken) == min(limit, count)
    taken += buckets.take(1000 * MINUTE, 1000)
    assert sorted(taken) == [key(number) for number in range(count)]


def test_keys_have_one_length() -> None:
    """They are kept as one string per minute."""
    with pytest.raises(ValueError, match="all have 18"):
        Buckets(MINUTE).add(0, b"short")
