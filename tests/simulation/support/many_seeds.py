"""Functions that play many seeds, and collect the outcomes.

They are not in the module of the command, because a process of a pool cannot import the ``__main__`` of a package.
"""

import gc
import logging
import traceback
from dataclasses import dataclass, field

from tests.simulation.support.scenarios import SCENARIOS
from tests.simulation.support.worlds import Scenario, again, crowded, lonely, play


@dataclass
class Outcome:
    """The outcome of some seeds."""

    seeds: int = 0
    handled: int = 0
    failures: list[dict[str, str | int]] = field(default_factory=list)

    def add(self, other: "Outcome") -> None:
        self.seeds += other.seeds
        self.handled += other.handled
        self.failures += other.failures


def prepare() -> None:
    """Prepare a process of the pool: let garbage collection run less often. Otherwise it would take a tenth of the process's time."""
    gc.freeze()
    gc.set_threshold(50_000)


def run(names: list[str], seeds: range, alone: bool) -> Outcome:
    """Play a range of seeds."""
    logging.disable(logging.CRITICAL)  # workers log every fault that they meet
    scenarios = [scenario for scenario in SCENARIOS if scenario.__name__ in names]
    outcome = Outcome()
    for seed in seeds:
        scenario = scenarios[seed % len(scenarios)]
        outcome.seeds += 1
        try:
            outcome.handled += play(scenario, (lonely if alone else crowded)(seed))
        except Exception as error:  # noqa: BLE001 - any failure of a seed is a finding
            outcome.failures.append(failure(scenario, seed, error))
    return outcome


def failure(scenario: Scenario, seed: int, error: Exception) -> dict[str, str | int]:
    """Describe a seed that failed, and how to repeat it."""
    return {
        "scenario": scenario.__name__,
        "seed": seed,
        "error": f"{type(error).__name__}: {error}"[:1_000],
        "where": "".join(traceback.format_tb(error.__traceback__)[-1:]).strip(),
        "again": again(scenario, seed),
    }
