"""Run many seeds: ``python -m tests.simulation --seeds 100000``; ``--seed N --scenario NAME`` repeats one.

Without ``--scenario`` seed *n* plays scenario *n* modulo their number. Ends with 1 when a seed failed.
"""

import argparse
import json
import logging
import sys
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict
from multiprocessing import get_context
from time import monotonic
from typing import TextIO

from tests.simulation.support.many_seeds import Outcome, prepare, run
from tests.simulation.support.scenarios import SCENARIOS
from tests.simulation.support.worlds import crowded, lonely, play

CHUNK = 50
EVERY = 30.0
"""Seconds between two lines of progress."""


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line asks for; return the exit code."""
    asked = parser().parse_args(arguments)
    logging.disable(logging.CRITICAL)
    names = asked.scenario or [scenario.__name__ for scenario in SCENARIOS]
    if asked.seed is not None:
        for scenario in SCENARIOS:
            if scenario.__name__ in names:
                play(scenario, (lonely if asked.alone else crowded)(asked.seed))
                say(f"{scenario.__name__}, seed {asked.seed}: fine")
        return 0
    started = monotonic()
    total, told = Outcome(), started
    for part in parts(names, range(asked.start, asked.start + asked.seeds), asked.alone, asked.processes):
        total.add(part)
        for found in part.failures:
            say(f"FAILED {found['scenario']} seed {found['seed']}: {found['error']}\n  {found['again']}", sys.stderr)
        if monotonic() - told > EVERY and not asked.json:
            told = monotonic()
            say(line(total, asked.seeds, told - started))
    seconds = monotonic() - started
    if asked.json:
        say(json.dumps({**asdict(total), "seconds": round(seconds, 1), "scenarios": names}, indent=2))
    else:
        say(line(total, asked.seeds, seconds))
    return 1 if total.failures else 0


def parts(names: list[str], seeds: range, alone: bool, processes: int) -> Iterator[Outcome]:
    """Play the seeds in chunks, here or in other processes; yield what came of each as it ends."""
    chunks = [seeds[at : at + CHUNK] for at in range(0, len(seeds), CHUNK)]
    if processes == 1:
        yield from (run(names, chunk, alone) for chunk in chunks)
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=prepare) as pool:
        pending: set[Future[Outcome]] = set()
        for chunk in chunks:
            pending.add(pool.submit(run, names, chunk, alone))
            if len(pending) > 4 * processes:
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        yield from (future.result() for future in pending)


def line(total: Outcome, of: int, seconds: float) -> str:
    """Say how far it is."""
    return (
        f"{total.seeds} of {of} seeds in {seconds:.0f} s ({total.seeds / max(seconds, 0.001):.1f}/s), {total.handled} messages "
        f"handled, {len(total.failures)} failures"
    )


def say(text: str, where: TextIO | None = None) -> None:
    """Print a line at once."""
    where = where or sys.stdout
    where.write(text + "\n")
    where.flush()


def parser() -> argparse.ArgumentParser:
    """Declare the command line."""
    names = [scenario.__name__ for scenario in SCENARIOS]
    made = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    made.add_argument("--seeds", type=int, default=1_000, help="how many")
    made.add_argument("--start", type=int, default=0, help="the first of them")
    made.add_argument("--seed", type=int, help="only this one, with its traceback")
    made.add_argument("--scenario", action="append", choices=names, help="only this one; may be repeated")
    made.add_argument("--processes", type=int, default=1, help="side by side")
    made.add_argument("--alone", action="store_true", help="one worker per service, and only its own faults")
    made.add_argument("--json", action="store_true", help="the result as JSON")
    return made


if __name__ == "__main__":
    sys.exit(main())
