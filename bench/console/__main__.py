"""The command line of the console benchmark: ``python -m bench.console --help``."""

from __future__ import annotations

import json
import time
from typing import Annotated

import typer
from rich.console import Console

from bench import report
from bench.children import RunFailed
from bench.console.part import DIALOGS, LETTERS, PART, REQUESTS, measure
from bench.console.planting import Planted
from bench.quiet import PATIENCE
from bench.screen import Screen
from conversations import Kafka
from conversations_ops.broker import EmbeddedBroker

LEAST = 10
"""Least number of dialogs for each failed message."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(epilog="Exit codes: 0 fine, 1 a page was not as it must be, 2 wrong usage.")
def console(
    dialogs: Annotated[int, typer.Option(min=2_000, help="Dialogs.")] = DIALOGS,
    letters: Annotated[int, typer.Option(min=200, help="Failed messages, at most a tenth of the dialogs.")] = LETTERS,
    requests: Annotated[int, typer.Option(min=2, help="Requests of each page.")] = REQUESTS,
    bootstrap: Annotated[str, typer.Option(help="Use this broker; else an embedded one is started.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON; progress goes to stderr.")] = False,
) -> None:
    """Measure how long each page of the web console takes, and how fast its read model catches up.

    \b
    Examples:
      python -m bench.console
      python -m bench.console --dialogs 100000 --letters 10000 --json
    """
    if letters * LEAST > dialogs:
        raise typer.BadParameter("there must be at least ten dialogs for each failed message", param_hint="--letters")
    terminal = Console(stderr=as_json)
    try:
        if bootstrap:
            found = _measured(bootstrap, (dialogs, letters, requests), terminal)
        else:
            with EmbeddedBroker() as broker:
                found = _measured(broker.bootstrap, (dialogs, letters, requests), terminal)
    except RunFailed as error:
        terminal.print(str(error), markup=False, style="red")
        raise typer.Exit(1) from error
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    else:
        report.show(PART, {**found, "failures": []}, terminal)


def _measured(bootstrap: str, sizes: tuple[int, int, int], terminal: Console) -> dict[str, object]:
    dialogs, letters, requests = sizes
    planted = Planted(Kafka(bootstrap, namespace=f"console-{time.time_ns() // 1_000_000}"), dialogs, letters)
    with Screen(terminal) as screen:
        screen.begin(PART.title)
        return measure(planted, screen, requests, PATIENCE)


if __name__ == "__main__":
    app(prog_name="python -m bench.console")
