"""The profile of a request by the log times of its records."""

from __future__ import annotations

from bench.latency.bare_chain import NEXT, READS, WAY
from bench.latency.hops import HOPS, _row
from bench.parts.latency import _profile


def test_the_records_of_a_request_are_those_between_its_begin_and_its_end() -> None:
    times = [90.0, 101.0, 104.0, 110.0, 131.0, 140.0]
    assert _row(times, 100.6, 130.2) == [100.6, 101.0, 104.0, 110.0, 131.0, 130.2]
    assert _row(times, 102.5, 108.0) == [102.5, 104.0, 108.0]


def test_the_bare_chain_reads_each_topic_of_its_way_once() -> None:
    read = [name for names in READS.values() for name in names]
    assert sorted(read) == sorted(WAY)
    assert [NEXT.get(name) for name in WAY] == [*WAY[1:], None]


def test_the_table_of_hops_has_ours_beside_the_bare_ones() -> None:
    (sheet,) = _profile({"idle": [2.0] * len(HOPS), "bare": [1.5] * len(HOPS)})
    assert len(sheet.rows) == len(HOPS) + 1
    assert sheet.rows[-1] == ("all", f"{2 * len(HOPS):.1f}", f"{1.5 * len(HOPS):.1f}", f"+{0.5 * len(HOPS):.1f}")
    assert _profile({"idle": [], "bare": [1.0]}) == _profile({}) == []
