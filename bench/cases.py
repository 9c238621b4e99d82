"""A case of the benchmark, and one run of it: fill topics, work in a new process, verify the replies, delete the topics."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from bench import quiet, topics, verify
from bench.children import result_of, work
from bench.contenders.roster import Contender
from bench.workload import Job, Workload

SLOWEST = 1_000
"""Messages per second below which a run counts as stuck."""
LONGEST_START = 60.0


@dataclass(frozen=True)
class Case:
    """A contender with a workload."""

    name: str
    contender: Contender
    workload: Workload
    concurrency: int = 16
    slowest: float = SLOWEST

    def job(self, bootstrap: str, space: str, directory: str, *, profile: bool = False) -> Job:
        """Return the job that the contender's process gets."""
        return Job(self.contender.name, bootstrap, space, directory, self.workload, self.concurrency, profile)

    @property
    def limit(self) -> float:
        """Maximum number of seconds that the contender's process may take."""
        return LONGEST_START + self.workload.messages / self.slowest


@dataclass(frozen=True)
class Sample:
    """One verified run."""

    messages_per_second: float
    cpu_us_per_message: float
    commits: int
    late: int
    """Number of messages that were not handled in the step that read them, so that they became waiting rows."""
    busy_before: float
    """Share of the processors that other programs used just before the run."""
    verdict: verify.Verdict
    open_per_second: float | None = None
    """Messages per second without the first message of each dialog; None if this was not measured."""
    peak_mb: float | None = None
    """Largest resident memory of the process, in MB; None if this was not measured."""
    form: str | None = None
    """Form of our hot path in the process; None if the contender is not ours."""
    versions: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        fields = asdict(self)
        del fields["versions"]
        return {
            name: round(value, 2) if isinstance(value, float) else value
            for name, value in fields.items()
            if value is not None
        }


Tell = Callable[[str], None]


def run(case: Case, bootstrap: str, space: str, tell: Tell, patience: float = quiet.PATIENCE) -> Sample:
    """Run a case once: fill its topic, wait at most ``patience`` seconds for a quiet machine, work, and count the replies.

    Raises:
        RunFailed: the contender's process failed or got stuck.
        Unavailable: the contender cannot be run on this machine.
    """
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        job = case.job(bootstrap, space, directory)
        command = case.contender.command(job)
        try:
            tell("filling")
            case.contender.fill(job)
            tell("waiting for the machine to be quiet")
            busy = quiet.settle(patience)
            tell("working")
            told = result_of(work(command, case.limit))
            tell("verifying")
            verdict = case.contender.verify(job)
        finally:
            topics.drop(bootstrap, space)
    messages, seconds = told["messages"], told["seconds"]
    return Sample(
        messages / seconds, told["cpu_seconds"] / messages * 1e6, told["commits"], told["late"], busy, verdict,
        _open(told), told.get("peak_mb"), told.get("form"), told["versions"],
    )  # fmt: skip


def _open(told: dict[str, Any]) -> float | None:
    """Return the messages per second, measured from the time when all dialogs are open; None if this time is not known."""
    if not (lap := told.get("lap")) or told["messages"] <= lap["messages"]:
        return None
    return float((told["messages"] - lap["messages"]) / (told["seconds"] - lap["seconds"]))
