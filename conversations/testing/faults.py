"""Seeded faults: what goes wrong in a simulation, and how often."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

AT_MOST = 200
"""Faults of one ``run``; then the world is kind, so that every run comes to rest."""
LATER = 30
"""The same for each time the clock moves in ``advance``."""


@dataclass(frozen=True, kw_only=True)
class Faults:
    """What goes wrong, each with its probability per opportunity; the same seed gives the same run.

    ``duplicate`` and ``reorder`` are per record on its way to a queue, ``abort`` per transaction, ``crash`` and
    ``revoke`` per transaction and per step, ``slow`` per handler call: it outlives the step it began in.

    ``move`` is per poll: partitions are dealt anew among the live workers, or a member is thrown out and learns of it
    later. ``stall`` is per phase of a transaction and per step: the process stands still while the others go on, and
    may be declared dead meanwhile. ``hang`` is per transaction: it stays open when its producer dies, or is decided
    only after its worker gave up waiting. ``survive`` is per crash: the local copies of state are still there.
    ``noise`` is per transaction: somebody writes a record that nobody can use. ``refuse`` is per transaction: the queue
    of another service takes no records. ``skew`` is per step and per start: the machine's clock is set to another time. ``overlap`` is per attempt of a commit: handlers finish while it is under way.
    """

    seed: int
    duplicate: float = 0.0
    reorder: float = 0.0
    crash: float = 0.0
    abort: float = 0.0
    revoke: float = 0.0
    slow: float = 0.0
    move: float = 0.0
    stall: float = 0.0
    hang: float = 0.0
    survive: float = 0.0
    noise: float = 0.0
    refuse: float = 0.0
    overlap: float = 0.0
    skew: float = 0.0


class Crash(BaseException):
    """The process dies here; nothing may catch it but the simulation."""


class Chance:
    """Draws faults from one seeded generator."""

    def __init__(self, faults: Faults | None) -> None:
        self.faults = faults or Faults(seed=0)
        self.random = Random(self.faults.seed)
        self.active = faults is not None
        self._left = AT_MOST

    def renew(self, at_most: int = AT_MOST) -> None:
        """A new run begins: faults may happen again."""
        self._left = at_most

    def happens(self, probability: float) -> bool:
        """Say whether a fault of this probability happens now."""
        if not self.active or probability <= 0 or self._left <= 0 or self.random.random() >= probability:
            return False
        self._left -= 1
        return True
