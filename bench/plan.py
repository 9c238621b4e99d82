"""How much is measured: the standard, unless the command line says otherwise."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bench.workload import Workload

QUICK = 20


@dataclass(frozen=True)
class Plan:
    """Sizes and numbers of runs. Only what is measured with the standard ones is published."""

    rounds: int = 3
    messages: int = Workload.messages
    dialogs: int = Workload.dialogs
    only: tuple[str, ...] = ()
    """Contenders of ``throughput``; none named means all."""
    block_seconds: int = 90
    shrink: int = 1
    """Everything is divided by this."""

    @property
    def standard(self) -> bool:
        """Whether the sizes are the standard ones; the number of rounds may differ."""
        return replace(self, rounds=Plan.rounds) == Plan()

    def count(self, number: int, least: int = 1) -> int:
        """A number of the standard, made smaller when asked to."""
        return max(least, number // self.shrink)

    def scaled(self, workload: Workload) -> Workload:
        """A workload, made smaller when asked to."""
        messages = self.count(workload.messages)
        return replace(workload, messages=messages, dialogs=max(1, min(self.count(workload.dialogs), messages)))
