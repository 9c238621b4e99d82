from threading import Event

import pytest

from conversations.kafka.bounded_calls import BoundedCalls, Stuck


def test_a_call_runs_and_what_it_raises_comes_out() -> None:
    calls = BoundedCalls("test")
    seen: list[int] = []
    calls.run(lambda: seen.append(1), 5)
    with pytest.raises(ZeroDivisionError):
        calls.run(lambda: 1 / 0, 5)
    calls.run(lambda: seen.append(2), 5)
    assert seen == [1, 2]
    calls.close()


def test_a_call_that_does_not_end_is_left_behind() -> None:
    calls, release = BoundedCalls("test"), Event()
    with pytest.raises(Stuck):
        calls.run(release.wait, 0.05)
    calls.close()
    release.set()
