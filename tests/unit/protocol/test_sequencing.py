"""Laws of one direction's numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversations.protocol.sequencing import NONE, Arrival, Inbound


def test_numbers_in_order_are_accepted() -> None:
    """Each is the one waited for."""
    inbound = Inbound()
    assert inbound.accepted == NONE
    assert [inbound.arrive(number, 10) for number in range(3)] == [Arrival.NEXT] * 3
    assert inbound.accepted == 2


def test_a_number_is_accepted_once() -> None:
    """What was accepted, or is held, is a duplicate."""
    inbound = Inbound()
    assert [inbound.arrive(number, 10) for number in (0, 0, 2, 2)] == [
        Arrival.NEXT, Arrival.DUPLICATE, Arrival.AHEAD, Arrival.DUPLICATE,
    ]  # fmt: skip


def test_fragments_that_are_given_back_are_not_accepted() -> None:
    """The peer is told the last number before them. A number in the middle is not given back."""
    inbound = Inbound()
    for number in range(5):
        inbound.arrive(number, 10)
    assert not inbound.give_back(3, 2)
    assert (inbound.whole, inbound.has(3)) == (4, True)
    assert inbound.give_back(4, 2)
    assert (inbound.whole, inbound.next) == (2, 5)
    assert [inbound.has(number) for number in range(5)] == [True, True, True, False, False]


def test_the_number_before_the_first_gap_is_exact_whatever_is_accepted_behind_it() -> None:
    inbound = Inbound()
    inbound.arrive(0, 10)
    assert inbound.unbroken == 0
    inbound.jump(5, 10)
    assert (inbound.accepted, inbound.whole, inbound.unbroken) == (5, 5, 0)
    inbound.late(1, 10)
    assert inbound.unbroken == 1


def test_a_held_number_follows_when_the_gap_closes() -> None:
    """It is ready as soon as what is before it was accepted, and not earlier."""
    inbound = Inbound()
    inbound.arrive(1, 10)
    assert inbound.ready() is None
    inbound.arrive(0, 10)
    assert inbound.ready() == 1
    assert inbound.arrive(1, 10) is Arrival.NEXT
    assert inbound.ready() is None
    assert not inbound.held


def test_no_more_than_the_limit_are_held() -> None:
    """Neither too many nor one too far away."""
    inbound = Inbound()
    assert [inbound.arrive(number, 3) for number in (1, 2, 3, 4)] == [Arrival.AHEAD] * 3 + [Arrival.TOO_FAR]
    assert Inbound().arrive(7, 3) is Arrival.TOO_FAR
    assert inbound.held == {1, 2, 3}


def test_what_a_jump_passes_over_counts_once_when_it_comes() -> None:
    """Missing numbers are remembered; held ones and those before are not missing."""
    inbound = Inbound()
    inbound.arrive(0, 10)
    inbound.arrive(2, 10)
    inbound.jump(4, 10)
    assert inbound.accepted == 4
    assert inbound.missing == {1, 3}
    assert [inbound.arrive(number, 10) for number in (3, 3, 1, 2, 4)] == [
        Arrival.MISSED, Arrival.DUPLICATE, Arrival.MISSED, Arrival.DUPLICATE, Arrival.DUPLICATE,
    ]  # fmt: skip


def test_a_jump_backwards_changes_nothing() -> None:
    """A late ERROR does not take back what was accepted."""
    inbound = Inbound(5)
    inbound.jump(2, 10)
    assert inbound.next == 5


def test_a_wild_number_is_not_believed() -> None:
    """A number far beyond the limit neither fills the memory nor makes everything before it look like a duplicate."""
    inbound = Inbound()
    for number in (21, 1 << 60, (1 << 63) - 1):
        inbound.jump(number, 10)
        assert inbound.late(number, 10)
    assert (inbound.next, inbound.missing) == (0, set())
    inbound.jump(20, 10)
    assert inbound.accepted == 20


def test_a_direction_is_neither_true_nor_false() -> None:
    """Asking ``if inbound`` is a mistake: nobody can say what it means."""
    with pytest.raises(TypeError):
        bool(Inbound())


@given(st.lists(st.integers(0, 12), max_size=40))
def test_whatever_arrives_each_number_is_next_once_and_in_order(numbers: list[int]) -> None:
    """Over any arrivals: accepted ones are 0, 1, 2, … and those behind a hole are held."""
    inbound, accepted = Inbound(), []
    for number in numbers:
        if inbound.arrive(number, 100) is Arrival.NEXT:
            accepted.append(number)
            while (ready := inbound.ready()) is not None:
                assert inbound.arrive(ready, 100) is Arrival.NEXT
                accepted.append(ready)
    assert accepted == list(range(len(accepted)))
    assert set(accepted) | inbound.held == set(numbers)


@given(st.lists(st.integers(0, 12), max_size=40))
def test_after_the_end_each_number_counts_once_in_any_order(numbers: list[int]) -> None:
    """What comes for a closed dialog is kept once, however it is duplicated and re-ordered."""
    inbound = Inbound()
    assert sorted(number for number in numbers if inbound.late(number, 100)) == sorted(set(numbers))
