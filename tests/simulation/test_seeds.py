"""Whole services under seeded faults; every seed is another world, and the same one every time.

``SIM_SEEDS=10000`` runs more of them here; ``python -m tests.simulation`` runs as many as you like, and repeats one.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.simulation.support.scenarios import SCENARIOS
from tests.simulation.support.worlds import Scenario, World, crowded, lonely, play

ROOT = Path(__file__).resolve().parents[2]
SEEDS = int(os.environ.get("SIM_SEEDS", "100"))
CHUNKS = 5

KEPT_SEEDS: dict[str, tuple[int, ...]] = {
    # Commands read before their partition was lost; a waiting row that did not know it was accepted.
    "saga": (672, 854),
    # A gap asked for at once after a restart; as the first of the saga.
    "counting": (351, 946),
    # Held rows behind rows that wait; a message accepted before the one it follows.
    "echoing": (9, 282),
    # The first message of a dialog, accepted, waiting, and restored as not accepted.
    "scattering": (116,),
    # Numbers passed over by an ERROR; what was held when its dialog was poisoned.
    "quarrelling": (237, 426, 1563),
}
"""Seeds of worlds with one worker per service that once found a bug, by scenario, with what it was."""

CROWDED_SEEDS: dict[str, tuple[int, ...]] = {
    # The message that was one too many to be held became a dead letter for each copy of it; a member thrown out while it gave a partition back got another one anew before it heard that it had lost it; a second copy of what was held when its dialog broke.
    "overflowing": (111, 383, 1_002_111, 2_071_983),
    # The first fragment of an undeliverable message had left before its dialog broke, and its target kept it.
    "quarrelling": (28_134,),
    # Noise of a dialog that nobody remembers any more.
    "expiring": (2_019_531, 2_019_963),
    # The same, of another scenario.
    "confusing": (1_013_693,),
    # A stopped record of a transaction that hung arrived although the transaction was aborted.
    "renewing": (7_000_676, 7_001_084),
}
"""The same of worlds with several."""


def kept(seeds: dict[str, tuple[int, ...]], world: Callable[[int], World]) -> list[tuple[Scenario, World]]:
    """The worlds of a table."""
    known = {scenario.__name__: scenario for scenario in SCENARIOS}
    return [(known[name], world(seed)) for name, numbers in seeds.items() for seed in numbers]


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_the_invariants_hold_in_every_world(scenario: Scenario, chunk: int) -> None:
    """Whatever the wire, the processes and the partitions do, results and invariants are the same."""
    for seed in range(SCENARIOS.index(scenario) + len(SCENARIOS) * chunk, SEEDS, len(SCENARIOS) * CHUNKS):
        play(scenario, crowded(seed))


@pytest.mark.parametrize(
    ("scenario", "world"),
    [*kept(KEPT_SEEDS, lonely), *kept(CROWDED_SEEDS, crowded)],
    ids=lambda value: str(value.seed) if isinstance(value, World) else value.__name__,
)
def test_worlds_that_once_broke_an_invariant_do_not_any_more(scenario: Scenario, world: World) -> None:
    """Seeds that found a bug are run for ever."""
    play(scenario, world)


def test_seeds_are_played_in_several_processes() -> None:
    """What the long runs are made with; a pool starts its processes afresh, so everything must be importable there."""
    command = [sys.executable, "-m", "tests.simulation", "--seeds", "3", "--processes", "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("3 of 3 seeds"), done.stderr
    assert done.returncode == 0
