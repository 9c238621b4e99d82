"""Laws of deadlines: none is missed, none is early without harm, and those of the dead do not pile up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversations.durations import MINUTE
from conversations.worker import deadlines
from conversations.worker.deadlines import Deadlines

HOURS = 5 * 60 * MINUTE


def own(number: int) -> bytes:
    return number.to_bytes(17, "big")


@given(st.lists(st.integers(0, HOURS), max_size=60), st.lists(st.integers(1, HOURS // 3), min_size=1, max_size=12))
def test_what_is_due_is_taken_exactly_once_and_nothing_before_its_time(
    deadlines_at: list[int], steps: list[int]
) -> None:
    kept, now, waiting = Deadlines(MINUTE), 0, dict(enumerate(deadlines_at))
    for number, at in list(waiting.items())[::2]:
        kept.add(at, own(number))
    first = True
    for step in steps:
        now += step
        due = sorted(number for number in list(waiting) if waiting[number] <= now and (number % 2 == 0 or not first))
        taken = sorted(int.from_bytes(name, "big") for name in kept.take(now, 1_000))
        assert taken == due
        for number in due:
            del waiting[number]
        if first:
            first = False
            for number in [number for number in waiting if number % 2]:
                kept.add(waiting[number], own(number))
        if waiting:
            assert kept.next() is not None
            assert (kept.next() or 0) <= min(waiting.values())
        else:
            assert kept.next() is None
    assert len(kept) == len(waiting)


def test_only_so_many_are_taken_at_a_time() -> None:
    kept = Deadlines(MINUTE)
    for number in range(10):
        kept.add(number, own(number))
    assert [len(list(kept.take(MINUTE, 4))) for _ in range(4)] == [4, 4, 2, 0]


def test_deadlines_of_endpoints_that_are_gone_are_dropped_in_slices() -> None:
    kept, count = Deadlines(MINUTE), 2 * deadlines.WORTH_TRIMMING
    for number in range(count):
        kept.add(HOURS + number % 7 * MINUTE, own(number))
    for _ in range(count - 10):
        kept.forget_one()
    before, looked_at = len(kept), 0
    while len(kept) > 10 and looked_at <= 2 * count:
        kept.trim(lambda name: int.from_bytes(name, "big") < 10)
        looked_at += deadlines.TRIMMED
        assert before - len(kept) <= deadlines.TRIMMED
        before = len(kept)
    assert len(kept) == 10
    assert {int.from_bytes(name, "big") for name in kept.take(2 * HOURS, 20)} == set(range(10))


def test_nothing_is_trimmed_while_most_are_alive() -> None:
    kept = Deadlines(MINUTE)
    for number in range(1_000):
        kept.add(HOURS, own(number))
        kept.forget_one()
    kept.trim(lambda name: False)
    assert len(kept) == 1_000


@pytest.mark.parametrize("count", [1, 7, 300])
def test_a_deadline_that_is_added_again_and_again_is_kept_a_few_times(count: int) -> None:
    kept = Deadlines(MINUTE)
    for number in range(count * 200):
        kept.add(HOURS, own(number % count))
        assert len(kept) <= max(2 * count, deadlines.FEW // deadlines.ENTRY) + 1
    assert set(kept.take(HOURS, count * 200)) == {own(number) for number in range(count)}
    assert kept.next() is None


def test_deadlines_whose_repetitions_were_dropped_are_trimmed_to_the_end() -> None:
    kept, count = Deadlines(MINUTE), deadlines.WORTH_TRIMMING
    for number in range(count):
        kept.add(HOURS, own(number))
        kept.forget_one()
    kept.trim(lambda _: True)  # it has begun
    for number in range(3 * count):
        kept.add(HOURS, own(number % count))
    for _ in range(3 * count // deadlines.TRIMMED):
        kept.trim(lambda _: False)
    assert kept._to_trim == []
