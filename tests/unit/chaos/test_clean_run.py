import pytest

from tests.chaos.checker.check import check
from tests.unit.chaos.clean_run import LENGTHS, SICK, run


@pytest.mark.parametrize("seed", range(3))
def test_a_run_in_which_the_product_kept_its_promises_is_clean(seed: int) -> None:
    """Crashes, aborts, lost partitions, slow handlers, and records repeated, misrouted and broken: nothing to report."""
    clean = run(seed)
    verdict = check(clean.log, clean.plan, clean.notes)
    assert verdict.lines()[1:] == []
    assert verdict.figures["messages"] == verdict.figures["handled"] == 2 * sum(LENGTHS)
    assert min(verdict.figures[name] for name in ("set aside", "duplicates dropped", "commands repeated")) > 0


@pytest.mark.parametrize("seed", range(3))
def test_a_run_with_entries_that_fail_is_clean_when_each_has_the_fate_of_its_policy(seed: int) -> None:
    """Skipped, held and decided about in four ways, ended, and a queue that goes off; the same crashes beside."""
    sick = run(seed, sick=SICK)
    verdict = check(sick.log, sick.plan, sick.notes)
    assert verdict.lines()[1:] == []
    assert verdict.figures["dead letters"] >= sum(len(fate.letters) > 0 for fate in sick.plan.fates.values())
