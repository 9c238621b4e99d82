"""Durations are counted in the interval to which they belong."""

import pytest

from conversations.metrics import BOUNDS
from conversations.worker.durations import Durations


@pytest.mark.parametrize("number", range(len(BOUNDS)))
def test_a_bound_belongs_to_the_interval_below_it(number: int) -> None:
    durations, bound = Durations(), BOUNDS[number]
    durations.took["add"] += [bound, bound * 1.01]
    durations.fold()
    durations.commit_took(bound)
    found = durations.handlers["add"]
    assert (found[number], found[number + 1], sum(found[:-1])) == (1, 1, 2)
    assert found[-1] == pytest.approx(bound * 2.01)
    assert durations.commits[number] == 1


def test_what_was_counted_is_not_counted_again() -> None:
    durations = Durations()
    for name in ("add", "add", "broken"):
        durations.took[name].append(0.0002)
        durations.fold()
    durations.fold()
    assert {name: found[0] for name, found in durations.handlers.items()} == {"add": 2, "broken": 1}
    assert durations.plain()["handlers"] == durations.handlers
