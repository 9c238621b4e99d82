"""The cost of an attack for other peers, computed from the measurements of some rounds."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from tests.hostile.support.two_workers import Window


@dataclass(frozen=True)
class Round:
    """The measurements of one round."""

    calm: Window
    """Honest work, in the world without an attacker."""
    attack: Window
    """The attack alone."""
    both: Window
    """The same honest work, and the same number of hostile records, at the same time."""
    after: Window
    """The same honest work after the attack, with all rows and records that the attack left."""
    standing: dict[str, float]
    """CPU seconds per second that the idle process spends on the rows that the attack left. The cost of an idle process without an attack is subtracted."""


def ratios(found: Round, process: str) -> dict[str, float]:
    """Return the ratios that compare the CPU of one process with the calm world. ``tests/hostile/soak.py`` defines them."""
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
    """Return the median of each ratio over all rounds."""
    all_ratios = [ratios(it, process) for it in rounds]
    return {name: median(it[name] for it in all_ratios) for name in all_ratios[0]}
