"""Who takes part, and how one run of each goes: fill, work in a fresh process, verify, clean up."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench import fill, quiet, quix_environment, topics, verify
from bench.stopwatch import MARK
from bench.workload import Job, Workload

ROOT = Path(__file__).resolve().parent.parent
SLOWEST = 1_000
"""Messages per second below which a run counts as stuck."""


class RunFailed(Exception):
    """A run did not end well; says how."""


@dataclass(frozen=True)
class Contender:
    """One way to do the work."""

    name: str
    label: str
    module: str
    fill: Callable[[Job], None]
    verify: Callable[[Job], verify.Verdict]

    def interpreter(self) -> str:
        """The Python that runs it.

        Raises:
            Unavailable: it cannot be run on this machine.
        """
        return str(quix_environment.python()) if self.name == "quix" else sys.executable


def _ours(name: str, label: str) -> Contender:
    return Contender(name, label, "bench.our_loop", fill.queue, verify.queue)


CONTENDERS = {
    contender.name: contender
    for contender in (
        Contender("raw", "bare loop, no state store", "bench.raw_loop", fill.plain, verify.plain),
        Contender("quix", "Quix Streams, exactly-once", "bench.quix_loop", fill.plain, verify.plain),
        _ours("ours_memory", "ours, state in memory"),
        _ours("ours_rocksdict", "ours, state in RocksDB"),
        _ours("ours_memory_pydantic", "ours, memory, Pydantic bodies"),
        _ours("ours_rocksdict_pydantic", "ours, RocksDB, Pydantic bodies"),
    )
}
"""In the order of a round."""


@dataclass(frozen=True)
class Sample:
    """One verified run."""

    messages_per_second: float
    cpu_us_per_message: float
    commits: int
    late: int
    """Messages that were not handled in the step that read them, and so kept as waiting rows first."""
    busy_before: float
    """Share of the processors that something else used just before the run."""
    verdict: verify.Verdict
    versions: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        fields = asdict(self)
        del fields["versions"]
        return fields


Tell = Callable[[str], None]


def run(contender: Contender, bootstrap: str, space: str, workload: Workload, tell: Tell) -> Sample:
    """Run a contender once, from filling its topic to counting its replies.

    Raises:
        RunFailed: its process failed or got stuck.
        Unavailable: it cannot be run on this machine.
    """
    interpreter = contender.interpreter()
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        job = Job(contender.name, bootstrap, space, directory, workload)
        try:
            tell("filling")
            contender.fill(job)
            tell("waiting for the machine to be quiet")
            busy = quiet.settle()
            tell("working")
            told = _result(contender, work(contender, interpreter, job))
            tell("verifying")
            verdict = contender.verify(job)
        finally:
            topics.drop(bootstrap, space)
    return Sample(
        told["messages"] / told["seconds"], told["cpu_seconds"] / told["messages"] * 1e6, told["commits"], told["late"], busy, verdict,
        told["versions"],
    )  # fmt: skip


def work(contender: Contender, interpreter: str, job: Job) -> str:
    """Run a contender's process and return what it printed.

    Raises:
        RunFailed: it failed or got stuck.
    """
    command = [interpreter, "-m", contender.module, job.to_json()]
    # A session of its own: Ctrl-C reaches us alone, and we end it.
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    limit = 60 + job.workload.messages / SLOWEST
    try:
        output, errors = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        raise RunFailed(f"not finished after {limit:.0f} s") from None
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    if process.returncode:
        raise RunFailed(f"its process ended with {process.returncode}:\n{errors.strip()[-2_000:]}")
    return output


def _result(contender: Contender, output: str) -> dict[str, Any]:
    for line in reversed(output.splitlines()):
        if line.startswith(MARK):
            told: dict[str, Any] = json.loads(line.removeprefix(MARK))
            return told
    raise RunFailed(f"{contender.module} reported nothing")
