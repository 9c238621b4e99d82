from dataclasses import replace

from bench.cases import Sample
from bench.rounds import change_of_form, cpu_ratio, ratio
from bench.verify import Verdict, judge


def sample(speed: float, cpu: float) -> Sample:
    return Sample(speed, cpu, 1, 0, 0.0, Verdict(1, 0, 0, 0))


def test_one_reply_for_each_message_in_order_is_good() -> None:
    assert judge([("a", 0), ("b", 0), ("a", 1), ("b", 1)], 4) == Verdict(4, 0, 0, 0)
    assert judge([("a", 0), ("a", 1)], 2).good


def test_a_lost_reply_is_seen() -> None:
    assert judge([("a", 0), ("a", 2)], 3).lost == 1


def test_a_reply_given_twice_is_seen_also_when_another_is_lost() -> None:
    verdict = judge([("a", 0), ("a", 0)], 2)
    assert (verdict.lost, verdict.twice, verdict.good) == (1, 1, False)


def test_replies_out_of_order_are_seen() -> None:
    verdict = judge([("a", 1), ("b", 0), ("a", 0)], 3)
    assert (verdict.lost, verdict.twice, verdict.disordered, verdict.good) == (0, 0, 1, False)


def test_more_replies_than_messages_are_not_good() -> None:
    verdict = judge([("a", 0), ("b", 0)], 1)
    assert (verdict.lost, verdict.good) == (-1, False)


def test_ratios_are_of_medians_with_the_extremes_of_single_rounds() -> None:
    samples = {"raw": [sample(100, 8), sample(200, 8), sample(120, 8)], "ours_memory": [sample(60, 16)] * 3}
    assert ratio(samples, "ours_memory", "raw") == [0.3, 0.5, 0.6]
    assert cpu_ratio(samples, "ours_memory", "raw") == 0.5


def test_nobody_is_compared_with_who_did_not_run() -> None:
    samples = {"raw": [], "ours_memory": [sample(60, 16)]}
    assert ratio(samples, "ours_memory", "raw") is None
    assert cpu_ratio(samples, "ours_memory", "quix") is None


def test_a_case_that_changes_its_form_is_refused() -> None:
    compiled = replace(sample(100, 8), form="compiled")
    assert change_of_form([], compiled) is None
    assert change_of_form([compiled], compiled) is None
    assert "sources have changed" in (change_of_form([compiled], replace(compiled, form="Python")) or "")
