"""What an attack costs others, out of the figures of some rounds."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from tests.hostile.support.two_workers import Window


@dataclass(frozen=True)
class Round:
    """One pair of measurements and what belongs to it."""

    calm: Window
    """Honest work where nobody attacks."""
    attack: Window
    """The attack alone."""
    both: Window
    """The same honest work and as much of an attack, at the same time."""
    after: Window
    """The same honest work once the attack is over, with everything that it left."""
    standing: dict[str, float]
    """What each process spends in a second on nothing but what the attack left, less what an idle one of a quiet world does."""


def ratios(found: Round, process: str) -> dict[str, float]:
    """Say how much more one process spends on the same honest work, by each of the definitions of the harness."""
    calm, attack = found.calm.cpu[process], found.attack.cpu[process]
    both, after = found.both.cpu[process], found.after.cpu[process]
    return {
        "under attack": (both - attack) / calm,
        "after it": after / calm,
        "per step": (both / found.both.steps[process]) / (calm / found.calm.steps[process]),
        "all charged": both / calm,
        "standing, share of a core": found.standing[process],
        "one of its records, in honest messages": (attack / found.attack.hostile) / (calm / found.calm.messages),
    }


def medians(rounds: list[Round], process: str) -> dict[str, float]:
    """The median of each ratio over all rounds."""
    all_ratios = [ratios(it, process) for it in rounds]
    return {name: median(it[name] for it in all_ratios) for name in all_ratios[0]}
