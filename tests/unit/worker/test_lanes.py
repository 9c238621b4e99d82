"""Laws of lanes: the items of a lane are a queue, into whose front an item may come back."""

import sys
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conversations.worker.active import Active, Deadline, Item, Lane

STEPS = st.lists(st.sampled_from(["put", "put", "take", "put_first", "end"]), max_size=60)
LONG = st.integers(0, 300)


def item() -> Item:
    return Deadline(Active(bytes(17), Lane(("", "a"))))


@settings(deadline=None)
@given(LONG, LONG, STEPS)
def test_a_lane_is_a_queue(puts: int, takes: int, steps: list[str]) -> None:
    """It has the same items as a deque, also when many were taken out."""
    lane, model = Lane(("orders", "a")), deque[Item]()
    for step in ["put"] * puts + ["take"] * min(puts, takes) + steps:
        new = item()
        if step == "put":
            assert lane.put(new) is (not model)
            model.append(new)
        elif step == "put_first":
            lane.put_first(new)
            model.appendleft(new)
        elif step == "end":
            assert lane.end() is bool(model)
        elif model:
            assert lane.head is model.popleft()
            lane.take_head()
        assert lane.has_items is bool(model)
        assert lane.rest() == list(model)
        assert lane.count == len(model)


def test_a_lane_without_items_has_no_head() -> None:
    """A mistake of ours must not be taken for an item."""
    lane = Lane(("", "a"))
    for _ in range(2):
        with pytest.raises(IndexError):
            lane.take_head()
        with pytest.raises(IndexError):
            _ = lane.head
        lane.put(item())
        lane.take_head()


def test_the_bytes_of_a_finished_item_leave_memory_at_once() -> None:
    """A lane may have many large messages behind it."""
    lane, first = Lane(("", "a")), item()
    lane.put(first)
    lane.put(item())
    before = sys.getrefcount(first)
    lane.take_head()
    assert sys.getrefcount(first) == before - 1
