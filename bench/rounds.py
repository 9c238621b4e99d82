"""Runs every case in turn, round after round, so that a change of the machine's speed affects all cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from bench import cases, quiet
from bench.cases import Case, Sample
from bench.children import RunFailed
from bench.contenders.roster import RAW
from bench.ground import Ground
from bench.unavailable import Unavailable
from bench.workload import Workload

WARM_UPS = 3
"""Number of runs of the bare loop that do not count, because a new broker becomes a fifth faster during its first million messages."""


@dataclass
class Outcome:
    """The results of the rounds."""

    samples: dict[str, list[Sample]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    """Why a case was left out, by its name: it cannot run on this machine, or it failed."""
    failures: list[str] = field(default_factory=list)
    """Runs that failed, or whose replies are not exactly one for each message."""

    @property
    def disturbed(self) -> bool:
        """True if other programs used the processors before a run, and so probably during the run."""
        return any(run.busy_before > quiet.QUIET for runs in self.samples.values() for run in runs)

    def to_dict(self) -> dict[str, Any]:
        """Return what every part that measures throughput keeps."""
        return {
            "rounds": max((len(runs) for runs in self.samples.values()), default=0),
            "disturbed": self.disturbed,
            "cases": {name: summary(runs) for name, runs in self.samples.items() if runs},
            "not_measured": self.missing,
            "failures": self.failures,
            "versions": {k: v for runs in self.samples.values() for run in runs for k, v in run.versions.items()},
        }


class Rounds:
    """Rounds of cases on one broker."""

    def __init__(self, ground: Ground, chosen: Sequence[Case]) -> None:
        self._ground, self._cases = ground, chosen
        self.outcome = Outcome(samples={case.name: [] for case in chosen})

    def run(self, rounds: int) -> Outcome:
        """Run all rounds, and show the progress. A case that fails is left out of the later rounds."""
        ground, out = self._ground, self.outcome.missing
        warm_up = Case("warm-up", RAW, ground.plan.scaled(Workload()))
        ground.screen.expect(WARM_UPS + rounds * len(self._cases))
        for number in range(WARM_UPS):
            if warm_up.name not in out:
                self._one(warm_up, f"warm-up {number + 1} of {WARM_UPS}", count=False)
            ground.screen.advance()
        for number in range(rounds):
            for case in self._cases:
                if case.name not in out:
                    self._one(case, f"round {number + 1} of {rounds}, {case.name}", count=True)
                ground.screen.advance()
        return self.outcome

    def _one(self, case: Case, title: str, *, count: bool) -> None:
        screen = self._ground.screen
        screen.tell(f"{title}: preparing")
        try:
            sample = cases.run(
                case,
                self._ground.bootstrap,
                self._ground.space(),
                lambda text: screen.tell(f"{title}: {text}"),
                self._ground.patience,
            )
        except Unavailable as error:
            self.outcome.missing[case.name] = str(error)
            screen.say(f"{case.name} is left out: {error}")
            return
        except RunFailed as error:
            self._fail(case, str(error))
            return
        if not sample.verdict.good:
            self._fail(case, f"its replies are wrong: {sample.verdict}")
        elif changed := change_of_form(self.outcome.samples.get(case.name, ()), sample):
            self._fail(case, changed)
        elif count:
            self.outcome.samples[case.name].append(sample)
            screen.say(
                f"{title}: {sample.messages_per_second:,.0f} messages/s, {sample.verdict.replies:,} replies, "
                "none lost, none twice"
            )

    def _fail(self, case: Case, why: str) -> None:
        self.outcome.failures.append(f"{case.name}: {why}")
        self.outcome.missing[case.name] = why
        self._ground.screen.warn(f"{case.name} failed: {why}")


def change_of_form(earlier: Sequence[Sample], sample: Sample) -> str | None:
    """Return the fault of a run whose form differs from the earlier runs of its case; None without a fault."""
    if not earlier or earlier[0].form == sample.form:
        return None
    return f"this run is of the form {sample.form}, the earlier ones are of {earlier[0].form}: the sources have changed meanwhile"


def summary(runs: Sequence[Sample]) -> dict[str, Any]:
    """Return the medians and the single runs of one case."""
    speed = median(run.messages_per_second for run in runs)
    found = {
        "median_messages_per_second": round(speed),
        "median_us_per_message": round(1e6 / speed, 2),
        "median_cpu_us_per_message": round(median(run.cpu_us_per_message for run in runs), 2),
        "late": max(run.late / run.verdict.replies for run in runs),
        "samples": [run.to_dict() for run in runs],
    }
    if opened := [run.open_per_second for run in runs if run.open_per_second is not None]:
        found["median_open_per_second"] = round(median(opened))
    if peaks := [run.peak_mb for run in runs if run.peak_mb is not None]:
        found["median_peak_mb"] = round(median(peaks))
    return found


def ratio(samples: Mapping[str, Sequence[Sample]], name: str, base: str) -> list[float] | None:
    """Return the lowest ratio of a round, the ratio of the medians, and the highest ratio of a round; None if a case did not run."""
    if not samples.get(name) or not samples.get(base):
        return None
    ours, theirs = ([run.messages_per_second for run in samples[which]] for which in (name, base))
    each = [a / b for a, b in zip(ours, theirs, strict=False)]
    return [round(value, 3) for value in (min(each), median(ours) / median(theirs), max(each))]


def cpu_ratio(samples: Mapping[str, Sequence[Sample]], name: str, base: str) -> float | None:
    """Return the ratio of the CPU times per message.

    Other programs affect this ratio less than the ratio of ``ratio``. The broker does not affect it.
    """
    if not samples.get(name) or not samples.get(base):
        return None
    ours, theirs = (median(run.cpu_us_per_message for run in samples[which]) for which in (name, base))
    return round(theirs / ours, 3)
