"""Run the matrix of all ways in which a dialog ends: ``python -m tests.simulation.matrix --seeds 0-99999``.

Each seed is one dialog. It chooses a cell: what each side does (nothing, END, ERROR, a cleanup by an operator), which side is first, and in
what state the messages are then: parked by a policy, held for an operator, missing so that the dialog breaks and is renewed, delayed because
a queue takes no records, and with or without a lifetime. The dialog is run until nothing moves any more. Then all invariants must hold, every
message must be in exactly one place, and no side may be open.

Exit codes: 0 all seeds are fine, 1 a seed failed (the output has its cell and the command that repeats it), 2 wrong usage, 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from dataclasses import asdict
from time import monotonic
from typing import TextIO

from tests.simulation.support.matrix.cells import CELLS
from tests.simulation.support.matrix.many import Outcome, parts
from tests.simulation.support.matrix.play import play


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line asks for; return the exit code."""
    asked = parser().parse_args(arguments)
    seeds: range = asked.seeds
    if len(seeds) == 1 and not asked.json:
        logging.disable(logging.CRITICAL)
        play(seeds[0], alone=asked.alone)  # a failure shows its traceback
        say(f"seed {seeds[0]}: fine")
        return 0
    started = monotonic()
    total, told = Outcome(), started
    try:
        for part in parts(seeds, asked.alone, asked.processes):
            total.add(part)
            for found in part.failures:
                say(f"FAILED seed {found['seed']}: {found['error']}\n  {found['cell']}\n  {found['again']}", sys.stderr)
            if monotonic() - told >= asked.progress and not asked.json:
                told = monotonic()
                say(total.line(len(seeds), told - started))
    except KeyboardInterrupt:
        say(f"stopped: {total.line(len(seeds), monotonic() - started)}", sys.stderr)
        return 130
    seconds = monotonic() - started
    if asked.json:
        say(json.dumps({**asdict(total), "cells": CELLS, "seconds": round(seconds, 1)}, indent=2))
    else:
        say(total.line(len(seeds), seconds))
    return 1 if total.failures else 0


def say(text: str, where: TextIO | None = None) -> None:
    """Print a line at once."""
    where = where or sys.stdout
    where.write(text + "\n")
    where.flush()


def span(text: str) -> range:
    """Read ``FROM-TO``, or a number of seeds from 0."""
    first, dash, last = text.partition("-")
    try:
        found = range(int(first), int(last) + 1) if dash else range(int(first))
    except ValueError:
        raise argparse.ArgumentTypeError(f"FROM-TO or a number of seeds, not {text!r}") from None
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} has no seed")
    return found


def several(text: str) -> int:
    """Read a number of processes."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"1 or more, not {text!r}")
    return int(text)


def parser() -> argparse.ArgumentParser:
    """Declare the command line."""
    made = argparse.ArgumentParser(
        prog="python -m tests.simulation.matrix",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument(
        "--seeds", type=span, default=range(1_000), metavar="FROM-TO", help="which ones; or how many, from 0"
    )
    made.add_argument(
        "--alone", action="store_true", help="one worker for each service, and no faults but those of the cell"
    )
    made.add_argument("--processes", type=several, default=1, metavar="N", help="side by side")
    made.add_argument(
        "--progress", type=float, default=30.0, metavar="SECONDS", help="time between two lines of progress"
    )
    made.add_argument("--json", action="store_true", help="the result as JSON")
    return made


if __name__ == "__main__":
    sys.exit(main())
