"""``python -m tests.leaks``: dialogs that end in every way leave nothing behind, and never begin again."""

from __future__ import annotations

import json
import logging
import os
import secrets
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from conversations_ops.console.exit_codes import Exit
from conversations_ops.demo.screen import Screen
from tests.leaks.patterns import PATTERNS
from tests.leaks.proof import Found, judged

BATCH = 2_000
"""Dialogs of one simulation. More of them would need more memory, and would not be faster."""
SHOWN = 25

app = typer.Typer(add_completion=False, context_settings={"help_option_names": ["-h", "--help"]})


@app.command()
def leaks(
    dialogs: Annotated[int, typer.Option(min=1, help="How many, in batches of 2,000.")] = 200_000,
    seed: Annotated[int, typer.Option(help="Seed of the first batch; drawn if left out.")] = -1,
    processes: Annotated[int, typer.Option(min=1, help="Batches that run side by side.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Prove that dialogs leave nothing behind, whatever ends them.

    In Service Broker, dialogs that only one side ends, or that an operator cleans up, stay in the system tables for ever. Here every
    batch of dialogs goes through all patterns: fire and forget, a target that never ends, errors, cleanups at each side, lifetimes that
    end, messages that are lost, late, held, parked or delayed, and dialogs that are replaced. Then months pass in the simulation. Nothing
    may be left in the state tables of the services or in the memory of their workers. Then a copy of every record of both queues
    arrives: no dialog may begin, no handler may run, and months later nothing may be left again.

    \b
    Examples:
      python -m tests.leaks                            # 200,000 dialogs, a quarter of an hour
      python -m tests.leaks --dialogs 2000 --seed 17   # only the batch with seed 17

    Exit codes: 0 clean, 1 a leak (the output names the rows, and how to repeat their batch), 130 Ctrl-C.
    """  # noqa: D301 - \b keeps Typer from re-wrapping a paragraph
    logging.disable(logging.CRITICAL)  # workers log each dialog that breaks
    first = secrets.randbelow(1_000_000) if seed < 0 else seed
    screen = Screen(Console(stderr=as_json))
    began = time.monotonic()
    total = Found()
    try:
        with screen.progress(f"Seed {first}, {dialogs:,} dialogs, {len(PATTERNS)} patterns", dialogs) as progress:
            for found in batches(first, dialogs, processes):
                total.add(found)
                progress.at(total.dialogs, f"{total.handled:,} handlers, {len(total.wrong):,} leaks")
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    seconds = time.monotonic() - began
    if as_json:
        facts = {"seed": first, "seconds": round(seconds, 1), "patterns": list(PATTERNS), **total.facts()}
        sys.stdout.write(json.dumps(facts) + "\n")
    else:
        _tell(total, seconds, screen)
    if total.wrong:
        raise typer.Exit(Exit.HUMAN)


def batches(first: int, dialogs: int, processes: int) -> Iterator[Found]:
    """Run the batches, here or in other processes; yield what each came to as it ends."""
    sizes = [min(BATCH, dialogs - at) for at in range(0, dialogs, BATCH)]
    asked = [(first + at, size) for at, size in enumerate(sizes)]
    if processes == 1:
        yield from (judged(*each) for each in asked)
        return
    with ProcessPoolExecutor(
        processes, mp_context=get_context("spawn"), initializer=logging.disable, initargs=(logging.CRITICAL,)
    ) as pool:
        for future in as_completed([pool.submit(judged, *each) for each in asked]):
            yield future.result()


def _tell(total: Found, seconds: float, screen: Screen) -> None:
    rows = " ".join(f"{kind} {number:,}" for kind, number in sorted(total.written.items()))
    screen.say(
        f"{total.dialogs:,} dialogs in {seconds:.0f} s · {total.handled:,} handlers ran · {total.repeated:,} records once more"
    )
    screen.say(f"Rows that were in the state tables, by their letter: {rows}")
    for line in total.wrong[:SHOWN]:
        screen.say(f"  {line}")
    screen.say("Clean: no row is left." if not total.wrong else f"NOT CLEAN: {len(total.wrong):,} leaks.")


if __name__ == "__main__":
    # Other processes import this package from wherever they are started.
    root = Path(__file__).resolve().parents[2]
    os.chdir(root)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    app()
