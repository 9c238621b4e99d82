"""The plan of a run on a cluster: drawn from its seed, over in time, each kind by itself."""

import pytest

from tests.chaos.cluster.faults import TWO_DAYS, Fault, Kind, What, draw
from tests.chaos.cluster.proxy import CLIENTS

WORKERS = ["chaos-teller/chaos-1", "chaos-ledger/chaos-1"]


def drawn(seed: int, *kinds: Kind) -> list[Fault]:
    return draw(seed, 150.0, kinds or tuple(Kind), WORKERS)


def test_a_seed_makes_the_same_plan_again_and_another_makes_another() -> None:
    assert drawn(7) == drawn(7) != drawn(8)


@pytest.mark.parametrize("seed", range(20))
def test_every_fault_is_over_in_time_and_the_first_are_first(seed: int) -> None:
    faults = drawn(seed)
    assert all(fault.at >= 0 and fault.over <= 150.0 for fault in faults)
    assert [fault.at for fault in faults] == sorted(fault.at for fault in faults)


@pytest.mark.parametrize("kind", Kind)
def test_a_kind_alone_is_what_it_is_among_the_others(kind: Kind) -> None:
    alone = drawn(7, kind)
    assert alone, "and there is some of it"
    assert [fault for fault in drawn(7) if fault in alone] == alone


def test_over_some_seeds_everything_is_done_and_clocks_are_off_by_two_days_both_ways() -> None:
    faults = [fault for seed in range(20) for fault in drawn(seed)]
    assert {fault.what for fault in faults} == set(What)
    assert {-TWO_DAYS, TWO_DAYS} <= {fault.amount for fault in faults}
    one_way = [fault for fault in faults if fault.ways and not any((b, a) in fault.ways for a, b in fault.ways)]
    assert any(CLIENTS in way for fault in one_way for way in fault.ways)
    assert any(CLIENTS not in way for fault in one_way for way in fault.ways)
    assert not any(fault.what is What.CUT for fault in one_way), "a connection is not reset in one direction"
