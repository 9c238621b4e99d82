"""Seeded faults of a simulation, and their probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

AT_MOST = 200
"""Largest number of faults in one ``run``. After this number, no fault happens, so every run comes to rest."""
LATER = 30
"""Largest number of faults between two moves of the clock in ``advance``."""


@dataclass(frozen=True, kw_only=True)
class Faults:
    """The faults of a simulation, each with its probability per opportunity. The same seed gives the same run.

    ``duplicate``, per record for a queue: the record arrives twice. ``reorder``, per record for a queue: the record arrives late.
    ``lose``, per record for a queue on another cluster: the record never arrives. ``damage``, likewise: one bit of it is wrong when it arrives.
    ``abort``, per transaction: the transaction is aborted, or the answer to its commit is lost.
    ``crash``, per transaction and per step: the process dies.
    ``revoke``, per poll and per transaction: the worker loses a partition.
    ``slow``, per handler call: the handler returns in a later step.

    ``move``, per poll: the group assigns partitions anew, or removes a member. The member learns this later.
    ``stall``, per phase of a transaction and per step: the process stands still while others do steps, and may be declared dead.
    ``hang``, per transaction: the transaction stays open when its producer dies, or is decided only after its worker has stopped waiting.
    ``hang``, per crash: the group notices the dead member late.
    ``survive``, per crash: the local copies of state survive.
    ``noise``, per transaction: an unusable record is written. ``refuse``, per transaction: another service's queue, or a
    plain topic, accepts no records.
    ``skew``, per step and per start: the machine's clock is set to another time.
    ``overlap``, before and after each commit: handlers return while the transaction is under way.
    """

    seed: int
    duplicate: float = 0.0
    reorder: float = 0.0
    lose: float = 0.0
    damage: float = 0.0
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
    """The death of a simulated process. Only the simulation may catch it."""


class Chance:
    """Draws faults from one seeded generator."""

    def __init__(self, faults: Faults | None) -> None:
        self.faults = faults or Faults(seed=0)
        self.random = Random(self.faults.seed)
        self.active = faults is not None
        self._left = AT_MOST

    def renew(self, at_most: int = AT_MOST) -> None:
        """Allow this number of faults from now on, because a new run begins."""
        self._left = at_most

    def happens(self, probability: float) -> bool:
        """Draw whether a fault of this probability happens now."""
        if not self.active or probability <= 0 or self._left <= 0 or self.random.random() >= probability:
            return False
        self._left -= 1
        return True
