"""``conversations broker``: a Kafka broker on this machine, without Docker."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Annotated

import typer

from conversations_ops.broker import named
from conversations_ops.broker.broker import serves
from conversations_ops.broker.named import Record
from conversations_ops.cli.output import Json, failures, show
from conversations_ops.console.exit_codes import EXIT_CODES, Exit
from conversations_ops.printable import one_line

app = typer.Typer(
    help="Run a Kafka broker on this machine. Needs Java 17 or newer, but no Docker. The first start downloads 45 MB.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
)
DEFAULT_NAME = "default"
Name = Annotated[str, typer.Argument(help="Name of the broker.")]


@app.command(epilog=EXIT_CODES)
def start(
    name: Annotated[str, typer.Option(help="Name of the broker. Several brokers may run at once.")] = DEFAULT_NAME,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Port on 127.0.0.1. Default: a free port.")] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            file_okay=False,
            help="Directory for the data. Default: a temporary directory, deleted when the broker stops.",
        ),
    ] = None,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Stay in the foreground; Ctrl-C stops the broker.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Start a broker in the background and print its address.

    The broker listens only on 127.0.0.1. It runs until `conversations broker stop`. With --foreground, the command
    does not end while the broker runs, and the end of the command is the end of the broker.

    \b
    Examples:
      conversations broker start                  # the data is deleted when the broker stops
      conversations broker start --data ./kafka   # the data is kept
      conversations broker start --name two --port 9192
      conversations broker start --json | jq -r .bootstrap
    """

    def ready(record: Record) -> None:
        kept = f"data kept in {record.data}" if record.kept else "data is deleted when it stops"
        hint = "Ctrl-C stops it" if foreground else f"conversations broker stop{suffix(name)}"
        text = f"Kafka is ready at {record.bootstrap}  ({kept})\n  log   {record.log}\n  stop  {hint}"
        show(dataclasses.asdict(record), text, as_json=as_json)

    with failures(as_json=as_json):
        if foreground:
            named.serve(name, data, port, ready)
        else:
            ready(named.start_detached(name, data, port))


@app.command(epilog=EXIT_CODES)
def stop(name: Name = DEFAULT_NAME, as_json: Json = False) -> None:
    """Stop a broker, and wait until it has ended. After 30 s it is killed."""
    with failures(as_json=as_json):
        record = named.stop(name)
        kept = f"; its data stays in {record.data}" if record.kept else ""
        show(
            dataclasses.asdict(record), one_line(f"Stopped {record.name} at {record.bootstrap}{kept}"), as_json=as_json
        )


@app.command(epilog=EXIT_CODES)
def status(
    name: Annotated[str | None, typer.Argument(help="Name of the broker. Default: all brokers.")] = None,
    as_json: Json = False,
) -> None:
    """List the brokers of this machine, and check that they answer.

    The exit code is 3 if there is no broker, or if a broker has crashed or does not answer. In a script:
    `conversations broker status || conversations broker start`.
    """
    with failures(as_json=as_json):
        rows = [(record, state(record, alive)) for record, alive in named.find_all() if name in {None, record.name}]
        data = {"brokers": [dataclasses.asdict(record) | {"state": word} for record, word in rows]}
        which = "No broker is running" if name is None else f"No broker named {name!r} is running"
        text = "\n".join(one_line(line(record, word)) for record, word in rows)
        show(data, text or f"{which}. Start one: conversations broker start{option(name)}", as_json=as_json)
        if not rows or any(word != "running" for _, word in rows):
            raise typer.Exit(Exit.UNREACHABLE)


def state(record: Record, alive: bool) -> str:
    """Return "running", "silent" (the broker does not answer) or "crashed"."""
    if not alive:
        return "crashed"
    return "running" if serves(record.bootstrap) else "silent"


def line(record: Record, word: str) -> str:
    """Describe a broker in one line, with the paths of its data and its log."""
    minutes = (time.time() - record.started_at) / 60
    kept = record.data if record.kept else "deleted when it stops"
    return f"{record.name:12} {word:8} {record.bootstrap:16} up {minutes:.0f} min  data: {kept}  log: {record.log}"


def suffix(name: str | None) -> str:
    """Return the name of a broker as an argument of a suggested command. The text is empty for the default broker."""
    return "" if name in {None, DEFAULT_NAME} else f" {name}"


def option(name: str | None) -> str:
    """Return the name of a broker as an option of a suggested `start`. The text is empty for the default broker."""
    return f" --name{suffix(name)}" if suffix(name) else ""
