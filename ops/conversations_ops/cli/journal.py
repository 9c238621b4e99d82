"""``conversations journal``: what operators did."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from conversations_ops.cli import completion
from conversations_ops.cli.catching_up import read_model
from conversations_ops.cli.kafka_options import Command, kafka_of
from conversations_ops.cli.option_errors import about_option
from conversations_ops.cli.output import Json, failures, show
from conversations_ops.console.exit_codes import EXIT_CODES
from conversations_ops.console.tables import as_text
from conversations_ops.console.times import moment, time_since
from conversations_ops.operate.journal import Entry, entry, joined
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
    by: Annotated[
        str, typer.Option(metavar="WHO", help="Only entries of this operator, or of policy, or of worker.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Print what operators did, in terminals and in the web console, with their reasons. The oldest entry comes first.

    WHO is the operator; or "policy", if the policy of a message turned a queue off; or "worker", if a worker did after too many rollbacks. An entry is
    kept as long as the events topic keeps its events.

    \b
    Examples:
      conversations journal --since 1h
      conversations journal --since 2026-11-21 --service orders
      conversations journal --json | jq -r '.journal[].who'
    """
    with about_option("--since"):
        after = time_since(since, time.time_ns() // 1_000)
    kafka = kafka_of(context)
    with failures(as_json=as_json), read_model(kafka) as file:
        found = [it.told for it in events(file, Wanted(service, by_person=True, since=after), MOST)]
    shown = [(it, told) for told in reversed(found) if by in ("", (it := entry(told)).who)]
    text = (
        as_text(HEADERS, [_row(it) for it in joined(it for it, _ in shown)], whole=("AT", "WHO"))
        if shown
        else "nobody has decided anything in this time"
    )
    plain = [{**told.fields, "who": it.who, "about": it.about} for it, told in shown]
    show({"journal": plain}, text, as_json=as_json)


def _row(it: Entry) -> tuple[str, ...]:
    return (moment(it.at), *it[1:])
