"""Runs everybody in turn, round after round, so that whatever changes on the machine changes for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from bench.contenders import CONTENDERS, Contender, RunFailed, Sample, Tell, run
from bench.quix_environment import Unavailable
from bench.workload import Workload

WARM_UPS = 3
"""Uncounted runs of the bare loop: a broker that has just started gets a fifth faster over its first million messages."""


@dataclass
class Outcome:
    """What the rounds brought."""

    samples: dict[str, list[Sample]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    """Why somebody could not take part; no fault."""
    failures: list[str] = field(default_factory=list)
    """Runs that failed, or whose replies are not exactly one for each message."""


class Rounds:
    """Rounds of the named contenders on one broker."""

    def __init__(self, names: Sequence[str], bootstrap: str, workload: Workload, console: Console) -> None:
        self._names, self._bootstrap, self._workload, self._console = names, bootstrap, workload, console
        self._runs = 0
        self.outcome = Outcome(samples={name: [] for name in names})

    def run(self, rounds: int) -> Outcome:
        """Run all rounds, showing how far it is; a contender that fails is left out of the rest."""
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self._console, refresh_per_second=2, transient=True) as progress:
            task = progress.add_task("", total=WARM_UPS + rounds * len(self._names))

            def tell(text: str) -> None:
                progress.update(task, description=text)

            for number in range(WARM_UPS):
                if "raw" not in self.outcome.missing:
                    self._one(CONTENDERS["raw"], f"warm-up {number + 1} of {WARM_UPS}", tell, count=False)
                progress.advance(task)
            for number in range(rounds):
                for name in self._names:
                    if name not in self.outcome.missing:
                        self._one(CONTENDERS[name], f"round {number + 1} of {rounds}, {name}", tell, count=True)
                    progress.advance(task)
        return self.outcome

    def _one(self, contender: Contender, title: str, tell: Tell, *, count: bool) -> None:
        self._runs += 1
        space = f"bench-{self._runs}"
        tell(f"{title}: preparing")
        try:
            sample = run(contender, self._bootstrap, space, self._workload, lambda text: tell(f"{title}: {text}"))
        except Unavailable as error:
            self.outcome.missing[contender.name] = str(error)
            self._console.print(f"{contender.name} is left out: {error}", markup=False)
            return
        except RunFailed as error:
            self._fail(contender, str(error))
            return
        if not sample.verdict.good:
            self._fail(contender, f"its replies are wrong: {sample.verdict}")
        elif count:
            self.outcome.samples[contender.name].append(sample)
            self._console.print(
                f"{title}: {sample.messages_per_second:,.0f} messages/s, {sample.verdict.replies:,} replies, "
                "none lost, none twice", highlight=False, soft_wrap=True,
            )  # fmt: skip

    def _fail(self, contender: Contender, why: str) -> None:
        self.outcome.failures.append(f"{contender.name}: {why}")
        self.outcome.missing[contender.name] = why
        self._console.print(f"{contender.name} failed: {why}", markup=False, style="red")
