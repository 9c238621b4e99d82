"""Measures dialogs between two clusters alone: ``python -m bench.remote --help``."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console

from bench import report
from bench.quiet import PATIENCE
from bench.remote.ground import Sizes
from bench.remote.part import PART, measure
from bench.screen import Screen
from conversations_ops.broker import BrokerError, EmbeddedBroker

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(epilog="Exit codes: 0 fine, 1 a run failed, 2 wrong usage, 3 no broker.")
def remote(
    rounds: Annotated[int, typer.Option(min=1, help="Number of rounds.")] = Sizes.rounds,
    messages: Annotated[int, typer.Option(min=1, help="Messages as fast as possible.")] = Sizes.messages,
    dialogs: Annotated[int, typer.Option(min=1, help="Dialogs.")] = Sizes.dialogs,
    timed: Annotated[int, typer.Option(min=1, help="Messages at a rate, for the latencies.")] = Sizes.timed,
    waiting: Annotated[
        int, typer.Option(min=1, help="Messages that wait when the forwarder starts, e.g. 1000000.")
    ] = Sizes.waiting,
    large: Annotated[int, typer.Option(min=2_000_000, help="Bytes of each large message.")] = Sizes.large,
    profile: Annotated[str, typer.Option(help="Write a profile of the forwarder that catches up into this file.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON; progress goes to stderr.")] = False,
) -> None:
    """Measure messages per second and latencies between two clusters, beside one cluster and beside MirrorMaker 2.

    \b
    Examples:
      python -m bench.remote
      python -m bench.remote --waiting 1000000 --json
      python -m bench.remote --rounds 1 --messages 1000 --dialogs 50 --timed 100 --waiting 5000
    """
    sizes = Sizes(rounds, messages, dialogs, Sizes.rate, timed, waiting, large)
    terminal = Console(stderr=as_json)
    patience = PATIENCE if messages >= Sizes.messages else 0.0
    try:
        with EmbeddedBroker() as broker, Screen(terminal) as screen:
            screen.begin(PART.title)
            found = measure(broker.bootstrap, sizes, screen, patience, profile)
    except BrokerError as error:
        terminal.print(str(error), markup=False, style="red")
        raise typer.Exit(3) from error
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    else:
        report.show(PART, found, terminal)
    if found["failures"]:
        raise typer.Exit(1)


if __name__ == "__main__":
    app(prog_name="python -m bench.remote")
