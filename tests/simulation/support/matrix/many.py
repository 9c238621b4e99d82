"""Plays many seeds of the matrix, in this process or in others. A process of a pool imports this module, so it is not the command's."""

from __future__ import annotations

import gc
import logging
import signal
import traceback
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from multiprocessing import get_context

from tests.simulation.support.matrix.cells import CELLS, cell_of
from tests.simulation.support.matrix.play import again, play

CHUNK = 25
"""Seeds after which a process reports."""


@dataclass
class Outcome:
    """What some seeds came to."""

    seeds: int = 0
    handled: int = 0
    letters: int = 0
    failures: list[dict[str, str | int]] = field(default_factory=list)

    def add(self, other: Outcome) -> None:
        """Add what other seeds came to."""
        self.seeds += other.seeds
        self.handled += other.handled
        self.letters += other.letters
        self.failures += other.failures

    def line(self, of: int, seconds: float) -> str:
        """Say how far it is."""
        return (
            f"{self.seeds:,} of {of:,} seeds in {seconds:.0f} s ({self.seeds / max(seconds, 0.001):.1f}/s), "
            f"{min(self.seeds, CELLS):,} of {CELLS:,} cells, {self.handled:,} messages handled, {self.letters:,} dead letters, "
            f"{len(self.failures)} failures"
        )


def prepare() -> None:
    """Prepare a process: workers log every fault that they meet, and garbage collection would take a tenth of the time."""
    logging.disable(logging.CRITICAL)
    gc.freeze()
    gc.set_threshold(50_000)


def prepare_other() -> None:
    """Prepare a process of the pool. Ctrl-C is for the process that gives out the seeds."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    prepare()


def run(seeds: range, alone: bool) -> Outcome:
    """Play a range of seeds."""
    outcome = Outcome()
    for seed in seeds:
        outcome.seeds += 1
        try:
            played = play(seed, alone=alone)
        except Exception as error:  # noqa: BLE001 - any failure of a seed is a finding
            outcome.failures.append(_failure(seed, alone, error))
        else:
            outcome.handled += played.handled
            outcome.letters += played.letters
    return outcome


def _failure(seed: int, alone: bool, error: Exception) -> dict[str, str | int]:
    return {
        "seed": seed,
        "cell": str(cell_of(seed)),
        "error": f"{type(error).__name__}: {error}"[:1_000],
        "where": "".join(traceback.format_tb(error.__traceback__)[-1:]).strip(),
        "again": again(seed, alone=alone),
    }


def parts(seeds: range, alone: bool, processes: int) -> Iterator[Outcome]:
    """Play the seeds in chunks; yield what each chunk came to as it ends."""
    chunks = [seeds[at : at + CHUNK] for at in range(0, len(seeds), CHUNK)]
    if processes == 1:
        prepare()
        yield from (run(chunk, alone) for chunk in chunks)
        return
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=prepare_other)
    try:
        pending: set[Future[Outcome]] = set()
        for chunk in chunks:
            pending.add(pool.submit(run, chunk, alone))
            if len(pending) > 2 * processes:
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        yield from (future.result() for future in pending)
    finally:
        pool.shutdown(cancel_futures=True)
