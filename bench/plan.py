"""How much is measured: the standard sizes, unless the command line gives others."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bench.workload import Workload

QUICK = 20


@dataclass(frozen=True)
class Plan:
    """Sizes, and the number of rounds. Only figures of the standard sizes are published."""

    rounds: int = 3
    messages: int = Workload.messages
    dialogs: int = Workload.dialogs
    only: tuple[str, ...] = ()
    """Contenders of ``throughput``; if it is empty, all of them."""
    block_seconds: int = 90
    rows: int = 1_000_000
    """Delayed rows of ``release``."""
    shrink: int = 1
    """All sizes are divided by this number."""

    @property
    def standard(self) -> bool:
        """True if the sizes are the standard ones. The number of rounds may differ."""
        return replace(self, rounds=Plan.rounds) == Plan()

    def count(self, number: int, least: int = 1) -> int:
        """Return a standard number divided by ``shrink``, at least ``least``."""
        return max(least, number // self.shrink)

    def scaled(self, workload: Workload) -> Workload:
        """Return a workload with its sizes divided by ``shrink``."""
        messages = self.count(workload.messages)
        return replace(workload, messages=messages, dialogs=max(1, min(self.count(workload.dialogs), messages)))
