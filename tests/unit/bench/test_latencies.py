import asyncio
import time
from itertools import pairwise

import pytest

from bench.latencies import curve, open_loop, percentile, summary


@pytest.mark.parametrize(
    ("percent", "expected"), [(50, 0.002), (90, 0.004), (99, 0.004), (100, 0.004), (1, 0.001), (75, 0.003)]
)
def test_a_percentile_is_a_value_that_so_many_percent_do_not_exceed(percent: float, expected: float) -> None:
    assert percentile([0.004, 0.001, 0.003, 0.002], percent) == expected


def test_a_summary_is_in_milliseconds() -> None:
    assert summary([0.001, 0.003]) == {"count": 2, "p50_ms": 1.0, "p90_ms": 3.0, "p99_ms": 3.0, "max_ms": 3.0}


def test_a_curve_has_a_point_for_each_half_percent_and_ends_with_the_longest() -> None:
    points = curve([number / 1_000 for number in range(1, 401)])
    assert points == [2.0 * number for number in range(1, 201)]
    assert curve([]) == []


def test_nothing_answered_has_no_percentiles() -> None:
    assert summary([]) == {"count": 0}


def test_requests_that_a_stall_kept_from_going_out_are_timed_from_when_they_were_due() -> None:
    dues: list[float] = []
    behind: list[float] = []

    async def send(number: int, due: float) -> None:
        while number == 0 and time.perf_counter() < due + 0.05:
            pass  # nobody else gets a turn: the generator is held up
        dues.append(due)
        behind.append(time.perf_counter() - due)

    told = asyncio.run(open_loop(1_000, 20, send))
    gaps = [later - earlier for earlier, later in pairwise(dues)]
    assert gaps == pytest.approx([0.001] * 19)
    assert sum(seconds > 0.02 for seconds in behind) >= 10
    assert told["late"] >= 10


def test_requests_go_out_while_earlier_ones_wait_for_their_answers() -> None:
    async def main() -> list[int]:
        begun: list[int] = []
        everybody = asyncio.Event()

        async def send(number: int, _due: float) -> None:
            begun.append(number)
            if len(begun) == 5:
                everybody.set()
            await everybody.wait()

        await asyncio.wait_for(open_loop(1_000, 5, send), 10)
        return begun

    assert asyncio.run(main()) == [0, 1, 2, 3, 4]
