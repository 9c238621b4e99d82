"""``conversations journal``: what operators did."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from conversations_ops.cli import completion
from conversations_ops.cli.catching_up import read_model
from conversations_ops.cli.kafka_options import Command, kafka_of
from conversations_ops.cli.output import Json, failures, show
from conversations_ops.console.exit_codes import EXIT_CODES
from conversations_ops.console.tables import as_text
from conversations_ops.console.times import micros, moment, span
from conversations_ops.operate.events import Told
from conversations_ops.read_model.events import Wanted, events

app = typer.Typer()
HEADERS = ("AT", "WHO", "WHAT", "SERVICE", "ABOUT", "REASON")
MOST = 10_000
"""Maximum number of entries that are printed."""


@app.command("journal", epilog=EXIT_CODES, cls=Command)
def journal(
    context: typer.Context,
    since: Annotated[
        str, typer.Option(metavar="TIME", help="Only entries of this time (UTC) or later, or of the last 1h, 7d, ...")
    ] = "",
    service: Annotated[
        str, typer.Option(autocompletion=completion.services, help="Only entries about this service.")
    ] = "",
    by: Annotated[str, typer.Option(metavar="WHO", help="Only entries of this operator.")] = "",
    as_json: Json = False,
) -> None:
    """Print what operators did, in terminals and in the web console, with their reasons. The oldest entry comes first.

    An entry is an event that names an operator. It is kept as long as the events topic keeps its events.

    \b
    Examples:
      conversations journal --since 1h
      conversations journal --since 2026-11-21 --service orders
      conversations journal --json | jq -r '.journal[].by'
    """
    after = _time(since)
    kafka = kafka_of(context)
    with failures(as_json=as_json), read_model(kafka) as file:
        found = [it.told for it in events(file, Wanted(service, by_person=True, since=after), MOST)]
    shown = [it for it in reversed(found) if by in ("", it.fields.get("by"))]
    text = (
        as_text(HEADERS, map(_row, shown), whole=("AT", "WHO")) if shown else "nobody has decided anything in this time"
    )
    show({"journal": [it.fields for it in shown]}, text, as_json=as_json)


def _row(it: Told) -> tuple[str, ...]:
    fields = it.fields
    what = f"{it.name} {fields.get('action', '')}".rstrip()
    about = " ".join(it.dialogs) or str(fields.get("redrive", ""))
    return moment(it.at), str(fields.get("by", "")), what, it.service, about, str(fields.get("reason", ""))


def _time(text: str) -> int:
    """Read a time, or a span before now, in microseconds since 1970; 0 for an empty text."""
    try:
        return time.time_ns() // 1_000 - int(span(text).total_seconds() * 1_000_000) if text else 0
    except ValueError:
        pass
    try:
        return micros(text)
    except ValueError as error:
        raise typer.BadParameter(f"--since: {error}, or as 1h, 7d") from None
